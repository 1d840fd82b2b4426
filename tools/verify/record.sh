#!/usr/bin/env bash
# One lineage record with openssl and sha256sum alone: record.sh KEY.pem RECORD.json [RECEIPT]
#
# KEY.pem is the pinned public key, RECORD.json one line of an export, RECEIPT the value of the answer's Lineage-Receipt
# header. It checks the DSSE signature, computes the leaf hash, and compares it with the receipt.
set -euo pipefail
key=$1 record=$2 receipt=${3-}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$record"; }
# Hexadecimal digits to bytes.
bytes() { printf "$(sed 's/../\\x&/g')"; }

field payload | base64 -d > "$work/payload"
field sig | base64 -d > "$work/sig"
# What is signed: the DSSE v1 pre-authentication encoding of type and payload.
{ printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(wc -c < "$work/payload")"; cat "$work/payload"; } > "$work/pae"
openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/pae" -sigfile "$work/sig"

# Where the record stands, from the canonical payload: quotes inside of strings are escaped, so this is a field.
place=$(sed -n 's/.*,"log":{"base_root":"[0-9a-f]*","base_size":[0-9]*,"epoch":\([0-9]*\),"id":"\([0-9a-f-]*\)","seq":\([0-9]*\)}.*/\1 \2 \3/p' "$work/payload")
read -r epoch log seq <<< "$place"
# The leaf: 0x01 | log | seq as u64be | SHA-256(payload) | key id, 8 bytes | signature. Its hash: SHA-256(0x00 | leaf).
{
    printf '\x01'
    tr -d - <<< "$log" | bytes
    printf '%016x' "$seq" | bytes
    sha256sum < "$work/payload" | cut -c 1-64 | bytes
    field keyid | cut -c 1-16 | bytes
    cat "$work/sig"
} > "$work/leaf"
hash=$({ printf '\x00'; cat "$work/leaf"; } | sha256sum | cut -c 1-64)
echo "log $log epoch $epoch seq $seq leaf $hash"

if [ -n "$receipt" ]; then
    [[ $receipt == v1\;*/"$log;$epoch;$seq;$(bytes <<< "$hash" | base64 | tr '+/' '-_' | tr -d '=')" ]] ||
        { echo "the receipt is not of this record"; exit 1; }
    echo "the receipt is of this record"
fi
