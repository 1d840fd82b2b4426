"""How long `signet lineage verify` takes over a million records, from SQLite and from an export: less than two minutes each.

RECORDS names another number, SCRATCH a folder with room for it (5.5 GB for a million). CARGO names another cargo.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
RECORDS = int(os.environ.get("RECORDS", "1000000"))
LIMIT_S = 120 * max(1, RECORDS / 1_000_000)


def main():
    build = [CARGO, "build", "--release", "--locked", "-p", "signet", "-p", "signet-store", "--bin", "signet",
             "--example", "records"]
    subprocess.run(build, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    folder = Path(tempfile.mkdtemp(prefix="signet-verify-", dir=os.environ.get("SCRATCH")))
    slow = False
    try:
        subprocess.run([target / "examples/records", str(RECORDS), folder / "data"], check=True)
        (folder / "data/key.pem").rename(folder / "key.pem")
        (folder / "data/export.jsonl").rename(folder / "export.jsonl")
        for source in (["--data", folder / "data"], ["--export", folder / "export.jsonl"]):
            started = time.monotonic()
            done = subprocess.run([target / "signet", "lineage", "verify", "--key", folder / "key.pem", *source],
                                  text=True, capture_output=True)
            took = time.monotonic() - started
            if done.returncode != 0 or not re.search(rf"^checked: {RECORDS} records", done.stdout, re.M):
                raise SystemExit(done.stdout + done.stderr)
            slow |= took > LIMIT_S
            print(f"verify {source[0]}: {RECORDS} records in {took:.1f} s, {RECORDS / took:.0f} a second", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if slow:
        sys.exit(f"slower than {LIMIT_S:.0f} s")


if __name__ == "__main__":
    main()
