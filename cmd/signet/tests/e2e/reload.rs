//! New providers, models and keys while the gateway serves.

use crate::capture::PUBLIC;
use crate::client::Answer;
use crate::gateway::{Gateway, Setup, chat, eventually, mock, mock_with, signet, streamed};
use rustix::process::Signal;
use serde_json::{Value, json};
use signet_mock::{Behaviour, MockUpstream};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const RELOAD: &str = "/admin/v1/reload";

/// A configuration file and the keys that it names.
struct Files(TempDir);

impl Files {
    /// With one model, `m`, at the provider `name`, whose key is `sk-NAME`.
    fn of(name: &str, mock: &MockUpstream) -> Self {
        let files = Self(TempDir::new().expect("a folder"));
        files.provider(name, mock, "");
        files
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).expect("written");
    }

    fn provider(&self, name: &str, mock: &MockUpstream, more: &str) {
        let (url, key) = (mock.base_url(), self.at(&format!("{name}.key")));
        self.write(&format!("{name}.key"), &format!("sk-{name}\n"));
        self.write(
            "signet.toml",
            &format!(
                "[[provider]]\nname = '{name}'\nbase_url = '{url}'\napi_key_file = '{}'\n\
                 [[model]]\nname = 'm'\ntargets = [{{ provider = '{name}', model = 'm' }}]\n{more}",
                key.display()
            ),
        );
    }

    fn start(&self, watch: bool) -> Gateway {
        Setup::configured(&self.at("signet.toml")).set("server.reload_watch", &watch.to_string()).start()
    }
}

/// What stands in the generation that an answer shows.
#[track_caller]
fn shown(answer: &Answer, status: u16) -> (u64, String, Vec<String>) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let body = answer.json();
    let faults = body["faults"].as_array().expect("a list").iter();
    let faults = faults.map(|fault| fault.as_str().expect("text").to_owned()).collect();
    let digest = body["config_sha256"].as_str().expect("a digest").to_owned();
    (body["generation"].as_u64().expect("a number"), digest, faults)
}

fn config_of(gateway: &Gateway, answer: &Answer) -> Value {
    gateway.record(&answer.id())["predicate"]["gateway"]["config_sha256"].clone()
}

#[test]
fn a_stream_ends_at_the_provider_that_a_reload_removes_and_the_next_request_goes_to_the_new_one() {
    let old = mock_with(Behaviour { chunks: Some(40), chunk_ms: Some(25), ..Behaviour::default() });
    let (new, files) = (mock(), Files::of("old", &old));
    let gateway = files.start(false);
    let (first, digest, _) = shown(&gateway.admin_get(RELOAD), 200);
    assert_eq!(first, 1);
    let mut running = gateway.begin(&streamed("What is a tide?"), &[]);
    let head = running.head().expect("a head");
    running.chunk().expect("a first event");

    files.provider("new", &new, "");
    let (second, other, faults) = shown(&gateway.admin_post(RELOAD), 200);
    assert_eq!((second, faults.len()), (2, 0));
    assert_ne!(digest, other);
    let next = gateway.chat(&chat("What is a reef?"), &[]);
    next.is(200, "MISS");
    assert_eq!((old.counts().requests, new.counts().requests), (1, 1));
    assert_eq!(new.requests()[0].headers["authorization"], "Bearer sk-new");
    assert_eq!(config_of(&gateway, &next), json!(other));

    let whole = running.rest(head);
    assert!(whole.ended_well && whole.text().ends_with("data: [DONE]\n\n"), "{}", whole.text());
    assert_eq!(old.counts().cancelled, 0);
    assert_eq!(config_of(&gateway, &whole), json!(digest), "its record names what it ran by");
}

#[test]
fn a_bad_file_changes_nothing_and_says_all_that_is_wrong_with_it() {
    let mock = mock();
    let files = Files::of("one", &mock);
    let gateway = files.start(false);
    let before = shown(&gateway.admin_get(RELOAD), 200);
    let good = fs::read_to_string(files.at("signet.toml")).expect("the file");
    let cases = [
        ("[[provider]".to_owned(), vec!["line 1"]),
        (format!("{good}[cache]\nttl_s = 0\nttl_x = 1\n"), vec!["cache.ttl_s", "cache.ttl_x"]),
        (
            format!("{good}[cache]\nttl_s = 7\n[server]\nmax_inflight = 9\n"),
            vec!["cache.ttl_s: a change needs a restart", "server.max_inflight: "],
        ),
        (good.replace("api_key_file", "#"), vec!["provider.*.api_key"]),
        (good.replace("'m' }]", "'m' }]\nmax_false_share = 0.005"), vec!["max_false_share of the model m"]),
        (good.replace("one.key", "none.key"), vec!["none.key"]),
    ];
    for (text, told) in cases {
        files.write("signet.toml", &text);
        let (generation, digest, faults) = shown(&gateway.admin_post(RELOAD), 422);
        assert_eq!((generation, &digest), (1, &before.1), "{text}");
        assert_eq!(faults.len(), told.len(), "{faults:?}");
        for fault in told {
            assert!(faults.iter().any(|found| found.contains(fault)), "{fault:?} in {faults:?}");
        }
        let ready = gateway.get("/readyz");
        assert_eq!(ready.status, 200);
        assert!(ready.json()["faults"]["config"].as_str().is_some_and(|text| text.contains("is refused")));
        gateway.chat(&chat(&format!("What is {generation} of {}?", text.len())), &[]).is(200, "MISS");
    }
    files.write("signet.toml", &good);
    assert_eq!(shown(&gateway.admin_post(RELOAD), 200), (2, before.1, Vec::new()));
    assert!(gateway.get("/readyz").json()["faults"].get("config").is_none());
}

#[test]
fn a_changed_file_is_taken_by_itself_and_the_key_of_one_provider_leaves_the_connections_of_the_other() {
    let (first, second, files) = (mock(), mock(), Files::of("first", &mock()));
    files.write("second.key", "sk-second\n");
    let more = format!(
        "[[provider]]\nname = 'second'\nbase_url = '{}'\napi_key_file = '{}'\n\
         [[model]]\nname = 'n'\ntargets = [{{ provider = 'second', model = 'n' }}]\n",
        second.base_url(),
        files.at("second.key").display()
    );
    files.provider("first", &first, &more);
    let gateway = files.start(true);
    let mut conn = crate::client::Conn::open(gateway.addr);
    let mut asked = |model: &str, number: usize| {
        let request = json!({"model": model, "messages": [{"role": "user", "content": format!("What is {number}?")}]});
        conn.send(
            "POST",
            crate::gateway::CHAT,
            &[("Content-Type", "application/json")],
            request.to_string().as_bytes(),
        );
        conn.answer().is(200, "MISS");
    };
    asked("m", 0);
    asked("n", 0);
    files.write("first.key", "sk-renewed\n");
    eventually("the next generation", || (shown(&gateway.admin_get(RELOAD), 200).0 == 2).then_some(()));
    asked("m", 1);
    asked("n", 1);
    assert_eq!(first.requests()[1].headers["authorization"], "Bearer sk-renewed");
    assert_eq!((first.counts().connections, second.counts().connections), (2, 1));
    assert_eq!(shown(&gateway.admin_get(RELOAD), 200).0, 2, "and once");
}

#[test]
fn a_hangup_reloads_and_ends_nothing() {
    let (old, new) = (mock(), mock());
    let files = Files::of("old", &old);
    let gateway = files.start(false);
    files.provider("new", &new, "");
    gateway.signal(Signal::HUP);
    eventually("the next generation", || (shown(&gateway.admin_get(RELOAD), 200).0 == 2).then_some(()));
    gateway.chat(&chat("What is a cape?"), &[]).is(200, "MISS");
    assert_eq!((old.counts().requests, new.counts().requests), (0, 1));
    gateway.stop();
}

#[test]
fn what_is_imported_from_a_litellm_list_serves_and_what_is_not_is_named_on_standard_error() {
    let (mock, folder) = (mock(), TempDir::new().expect("a folder"));
    let (list, file) = (folder.path().join("litellm.yaml"), folder.path().join("signet.toml"));
    let import = |yaml: String| {
        fs::write(&list, yaml).expect("written");
        let output = signet(&["config", "import"]).arg(&list).output().expect("it runs");
        (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let params = format!("{{model: openai/far, api_base: '{}', api_key: os.environ/THE_KEY, tpm: 9}}", mock.base_url());
    let (code, text, notes) = import(format!("model_list:\n- model_name: near\n  litellm_params: {params}\n"));
    assert_eq!((code, notes.trim()), (Some(0), "model_list[0].litellm_params.tpm: is not expressed"));
    fs::write(&file, text).expect("written");
    let gateway = Setup::configured(&file).env("THE_KEY", "sk-taken").start();
    let request = json!({"model": "near", "messages": [{"role": "user", "content": "What is a strait?"}]});
    gateway.chat(&request, &[]).is(200, "MISS");
    assert_eq!(mock.requests()[0].headers["authorization"], "Bearer sk-taken");
    assert_eq!(import("model_list: []".to_owned()).0, Some(78));
    assert_eq!(import("model_list: [".to_owned()).0, Some(78));
    let told = |command: &str, file: &Path| {
        let output = signet(&["config", command]).arg(file).output().expect("it runs");
        assert_eq!(output.status.code(), Some(78));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(told("check", &list).contains("`signet config import`"));
    assert!(told("import", &file).contains("`signet config check`"));
}

#[test]
fn a_pipe_or_a_device_in_the_place_of_the_configuration_is_a_fault_and_the_watch_goes_on() {
    let (mock, other) = (mock(), mock());
    let files = Files::of("first", &mock);
    let gateway = files.start(true);
    let odd: [&dyn Fn(&PathBuf); 3] = [
        &|place| {
            let made = std::process::Command::new("mkfifo").arg(place).status();
            assert!(made.is_ok_and(|status| status.success()));
        },
        &|place| std::os::unix::fs::symlink("/dev/zero", place).expect("a link"),
        &|place| fs::create_dir(place).expect("a folder"),
    ];
    for put in odd {
        let place = files.at("signet.toml");
        fs::remove_file(&place).ok();
        put(&place);
        eventually("the fault", || {
            let (_, _, faults) = shown(&gateway.admin_get(RELOAD), 200);
            faults.first().is_some_and(|fault| fault.contains("not a plain file")).then_some(())
        });
        fs::remove_file(&place).or_else(|_| fs::remove_dir(&place)).expect("removed");
        files.provider("second", &other, "");
        eventually("the good one", || {
            let (_, _, faults) = shown(&gateway.admin_get(RELOAD), 200);
            faults.is_empty().then_some(())
        });
    }
    gateway.chat(&chat("What is a weir?"), &[]).is(200, "MISS");
    assert_eq!(other.counts().requests, 1);
}

#[test]
fn a_raised_floor_and_a_stricter_mode_hold_from_the_reload_on_and_can_be_taken_back() {
    let mock = mock();
    let files = Files::of("one", &mock);
    let layer = "[semantic]\nsimilarity_min = 0.8\n";
    files.provider("one", &mock, layer);
    let gateway = files.start(false);
    let (stored, near) = ("How do I choose a lawyer in a small town?", "How do I select an attorney in a small town?");
    gateway.chat(&chat(stored), &[]).is(200, "MISS");
    let served = || gateway.chat(&chat(near), &[("Cache-Control", "only-if-cached")]);
    served().is(200, "SEMANTIC");
    let strict = ["similarity_min = 0.97\n", "semantic_mode = 'shadow'\n", "semantic_mode = 'off'\n"];
    for (turn, stricter) in strict.into_iter().enumerate() {
        let generation = 2 * turn as u64 + 2;
        files.provider("one", &mock, &format!("{stricter}{layer}"));
        assert_eq!(shown(&gateway.admin_post(RELOAD), 200).0, generation);
        assert_eq!(served().status, 504, "{stricter}");
        files.provider("one", &mock, layer);
        assert_eq!(shown(&gateway.admin_post(RELOAD), 200).0, generation + 1);
        served().is(200, "SEMANTIC");
    }
    assert_eq!(mock.counts().requests, 1);
}

#[test]
fn a_model_begins_to_keep_its_bodies_with_a_reload_and_ends_with_another() {
    let mock = mock();
    let files = Files::of("one", &mock);
    files.write("public.pem", PUBLIC);
    let key = format!("[lineage]\nbreak_glass_key_file = '{}'\n", files.at("public.pem").display());
    files.provider("one", &mock, &key);
    let gateway = files.start(false);
    let kept = |prompt: &str| {
        let answer = gateway.chat(&chat(prompt), &[]);
        answer.is(200, "MISS");
        gateway.record(&answer.id())["predicate"]["capture"]["state"].clone()
    };
    assert_eq!(kept("What is a tide?"), Value::Null);
    files.provider("one", &mock, &format!("capture = 'sealed'\n{key}"));
    shown(&gateway.admin_post(RELOAD), 200);
    assert_eq!(kept("What is a reef?"), "sealed");
    files.provider("one", &mock, &key);
    shown(&gateway.admin_post(RELOAD), 200);
    assert_eq!(kept("What is a weir?"), Value::Null);
}
