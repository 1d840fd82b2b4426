//! With a model that a test holds up: what is late, broken or gone.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, channel};

const DEADLINE: Duration = Duration::from_millis(50);
/// For what is not about the deadline: no test waits for it.
const AMPLE: Duration = Duration::from_mins(10);

fn id(n: u8) -> EntryId {
    EntryId::from_bytes([n; 16])
}

fn stored(texts: &[&str]) -> Vec<(EntryId, Arc<str>)> {
    (1..).map(id).zip(texts.iter().map(|text| Arc::from(*text))).collect()
}

/// The angle of a text's vector is its length in degrees.
fn vector(text: &str) -> Arc<[f32]> {
    let angle = (text.len() as f32).to_radians();
    Arc::from([angle.cos(), angle.sin()])
}

/// A model that notes what it is asked, and starts on nothing before the test lets it.
struct Held {
    rescoring: Arc<Rescoring>,
    begun: Mutex<Receiver<String>>,
    go: Sender<()>,
}

impl Held {
    fn new(deadline: Duration) -> Self {
        let rescoring = Arc::new(Rescoring::with_permits(deadline, 1));
        let ((tell, begun), (go, gate)) = (channel(), channel());
        let gate = Mutex::new(gate);
        rescoring.encode_with(move |text| {
            drop(tell.send(text.to_owned()));
            let _let = gate.lock().expect("no test panics with the gate").recv();
            Ok(vector(text))
        });
        Self { rescoring, begun: Mutex::new(begun), go }
    }

    fn let_pass(&self, texts: usize) {
        (0..texts).for_each(|_| self.go.send(()).expect("the model is there"));
    }

    /// The next text that the model began with.
    fn begun(&self) -> String {
        self.begun.lock().expect("one test").recv().expect("the model is there")
    }
}

impl Rescoring {
    /// The same with another deadline.
    fn with_deadline(&self, deadline: Duration) -> Self {
        let (encode, permits, kept) = (self.encode.clone(), self.permits.clone(), self.kept.clone());
        Self { encode, deadline, permits, kept }
    }
}

#[tokio::test]
async fn scores_are_cosines_in_the_order_of_the_candidates() {
    let held = Held::new(AMPLE);
    held.let_pass(3);
    let scores = held.rescoring.rescore(&"abcd".into(), &stored(&["ab", "abcde"])).await.expect("scores");
    assert_eq!(scores.len(), 2);
    for (score, degrees) in scores.iter().zip([2.0_f32, 1.0]) {
        assert!((score - degrees.to_radians().cos()).abs() < 1e-6, "{scores:?}");
    }
}

#[tokio::test]
async fn there_are_no_scores_before_the_model_is_loaded() {
    let rescoring = Rescoring::new(DEADLINE);
    assert!(rescoring.rescore(&"a".into(), &stored(&["b"])).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_late_is_a_fault_at_the_deadline_and_what_it_made_is_kept() {
    let held = Held::new(DEADLINE);
    let candidates = stored(&["ab"]);
    let asked = "abcd".into();
    let late = async {
        assert_eq!(held.begun(), "ab");
        tokio::time::advance(2 * DEADLINE).await;
    };
    let (scores, ()) = tokio::join!(held.rescoring.rescore(&asked, &candidates), late);
    assert!(scores.expect_err("late").to_string().contains("50ms"));
    held.let_pass(2);
    // The next one waits for the permit of the late one, finds the stored vector, and needs only its own.
    tokio::time::resume();
    let patient = held.rescoring.with_deadline(AMPLE);
    patient.rescore(&"abcde".into(), &candidates).await.expect("scores");
    assert_eq!(held.begun(), "abcde", "neither the stored text again, nor the asked one that nobody waits for");
}

#[tokio::test]
async fn a_caller_who_leaves_stops_what_was_not_begun() {
    let held = Held::new(AMPLE);
    let asked = "abcd".into();
    let candidates = stored(&["a", "ab", "abc"]);
    {
        let mut scores = std::pin::pin!(held.rescoring.rescore(&asked, &candidates));
        assert!(futures_poll(scores.as_mut()).is_none());
        assert_eq!(held.begun(), "a");
    }
    held.let_pass(2);
    held.rescoring.rescore(&"abcdef".into(), &candidates[..1]).await.expect("scores");
    assert_eq!(held.begun(), "abcdef");
}

/// Polls once.
fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn no_more_score_at_a_time_than_there_are_permits() {
    let rescoring = Arc::new(Rescoring::with_permits(AMPLE, 2));
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (at, top) = (now.clone(), most.clone());
    rescoring.encode_with(move |text| {
        top.fetch_max(at.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        (0..100).for_each(|_| thread::yield_now());
        at.fetch_sub(1, Ordering::SeqCst);
        Ok(vector(text))
    });
    let mut asking = tokio::task::JoinSet::new();
    for n in 0..20 {
        let rescoring = rescoring.clone();
        asking.spawn(async move { rescoring.rescore(&"abcd".into(), &[(id(n), "ab".into())]).await.is_ok() });
    }
    assert!(asking.join_all().await.into_iter().all(|scored| scored));
    assert!(most.load(Ordering::SeqCst) <= 2);
}

#[tokio::test]
async fn a_stored_question_is_encoded_once_and_again_after_it_was_forgotten_or_changed() {
    let held = Held::new(AMPLE);
    let asked: Arc<str> = "abcd".into();
    for (candidates, expected, forgets) in [
        (stored(&["ab"]), &["ab", "abcd"][..], false),
        (stored(&["ab"]), &["abcd"], true),
        (stored(&["ab"]), &["ab", "abcd"], false),
        (stored(&["abc"]), &["abc", "abcd"], false),
    ] {
        held.let_pass(expected.len());
        held.rescoring.rescore(&asked, &candidates).await.expect("scores");
        let begun: Vec<_> = expected.iter().map(|_| held.begun()).collect();
        assert_eq!(begun, expected);
        if forgets {
            held.rescoring.forget(id(1));
        }
    }
}

#[tokio::test]
async fn a_text_that_has_no_vector_is_a_fault() {
    let rescoring = Rescoring::new(AMPLE);
    rescoring.encode_with(|text| if text == "odd" { Err(EmbedFault("odd".to_owned())) } else { Ok(vector(text)) });
    assert!(rescoring.rescore(&"odd".into(), &stored(&["a"])).await.is_err());
    assert!(rescoring.rescore(&"a".into(), &stored(&["a", "odd"])).await.is_err());
    assert!(rescoring.rescore(&"a".into(), &stored(&["a"])).await.is_ok());
}

#[tokio::test]
async fn a_model_that_panics_is_a_fault_and_the_next_question_is_scored() {
    let rescoring = Rescoring::with_permits(AMPLE, 1);
    rescoring.encode_with(|text| if text == "odd" { panic!("on purpose") } else { Ok(vector(text)) });
    assert!(rescoring.rescore(&"odd".into(), &stored(&["a"])).await.is_err());
    assert!(rescoring.rescore(&"a".into(), &stored(&["a"])).await.is_ok());
}
