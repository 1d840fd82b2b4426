//! The semantic layer: which stored question, if any, is the one being asked?
//!
//! Two tiers, each of which may only say "no" to the next: the same words in the same order class, then the nearest
//! vectors at or over the floor. A candidate of either tier must pass every gate. The layer holds questions and keys, not
//! answers: the answer is fetched from the exact layer, so its memory stays within that layer's budget.
//!
//! With a rescorer the vector tier looks wider, and what passes every gate is scored again; that score is held against the
//! floor. What the gates refuse is never scored.

use crate::gates;
use crate::key::{CacheKey, Partition};
use crate::ports::{Embedder, Neighbour, Place, Rescorer, VectorIndex};
use crate::question::{Ineligible, Question};
use crate::shared::{Findable, SharedSearch, name_digest};
use parking_lot::RwLock;
use signet_types::{EntryId, TenantId};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Words = ([u8; 32], [u8; 32]);
type Map<K, V> = std::collections::HashMap<K, V, ahash::RandomState>;

/// Neighbours that are shown to the gates; the next ones are less similar and were refused for a reason that is likely
/// to hold for them too.
const CANDIDATES: usize = 8;
/// Similarity by the first encoder from which a candidate is worth a second look. Of the pairs that the second one puts over
/// 0.92, one in seventy lies under it.
const RESCORE_FROM: f32 = 0.7;
/// Candidates that are scored again, the nearest of those that pass: each may cost milliseconds.
const RESCORED: usize = 3;

/// Whether semantic hits are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Not consulted and not filled.
    Off,
    /// Decided, counted and recorded, but the fresh answer is served.
    Shadow,
    /// Served.
    On,
}

impl Mode {
    /// The mode as configuration and the admin API name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::On => "on",
        }
    }
}

/// The settings of the semantic layer.
#[derive(Debug, Clone, Copy)]
pub struct SemanticConfig {
    /// Whether hits are served.
    pub mode: Mode,
    /// Cosine similarity that a vector neighbour needs at least, in `(0, 1]`; a caller may only raise it.
    pub floor: f32,
    /// Questions held in process at most; beyond it the oldest of the tenant leaves that holds most. So whoever holds no more
    /// than the bound divided by the number of tenants loses nothing to what others ask, however much that is. A shared index
    /// is bounded by lifetimes alone.
    pub max_entries: usize,
}

/// What was decided, as it was decided; rides in the record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// `same-words` or `vector` where a candidate passed and its answer could still be had.
    pub tier: Option<&'static str>,
    /// Similarity of the best candidate, passed or refused; where there is a rescorer, what passed has its score.
    pub similarity: Option<f32>,
    /// Where that candidate's answer is kept.
    pub candidate: Option<CacheKey>,
    /// The floor in force.
    pub floor: Option<f32>,
    /// The gate that refused the best candidate.
    pub refused_by: Option<&'static str>,
    /// Why the question was not eligible.
    pub ineligible: Option<&'static str>,
    /// The candidate would have been served, but the mode or the route's standing is shadow, or the decision was sampled.
    pub shadowed: bool,
    /// The decision was drawn to be checked: the fresh answer is served and compared with the candidate's.
    pub sampled: bool,
}

/// What holds for one lookup, as far as the labels of its route decide it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Similarity from which a hit is served; none where nothing is.
    pub serve_from: Option<f32>,
    /// Similarity from which a candidate is worth a label.
    pub look_from: f32,
    /// Whether this lookup is drawn: a hit is not served then, and comes with the miss.
    pub sampled: bool,
}

/// A stored question that passes.
pub(crate) struct Found {
    pub(crate) key: CacheKey,
    /// Whether its answer is to be served.
    pub(crate) serve: bool,
}

/// A question made ready: read, and embedded at most once for lookup and insertion.
#[derive(Debug, Clone)]
pub struct Prepared {
    question: Arc<Question>,
    words: Words,
    place: Place,
    meaning: Meaning,
    /// Kept only where there is a rescorer.
    text: Option<Arc<str>>,
}

impl Prepared {
    /// Whether the answer changes within hours or days.
    pub fn volatile(&self) -> bool {
        self.question.volatile()
    }
}

/// What the vector tier knows of a question.
#[derive(Debug, Clone)]
enum Meaning {
    Vector(Arc<[f32]>),
    /// Not embedded: in its place nothing was held that it could be near to. Many questions stay alone in theirs for good,
    /// those with a ticket number for instance.
    Alone(Arc<str>),
    /// The encoder failed or was not asked, or only the same words may serve.
    Unknown,
}

struct Held {
    question: Arc<Question>,
    words: Words,
    place: Place,
    key: CacheKey,
    expires_ms: u64,
    age: u64,
    text: Option<Arc<str>>,
}

/// A candidate that every gate passed.
struct Passed {
    id: EntryId,
    key: CacheKey,
    text: Arc<str>,
}

/// The questions held in one place.
#[derive(Default)]
struct Company {
    held: usize,
    /// Those of them that were alone when they came, to be embedded when another one is asked.
    waiting: Vec<(EntryId, Arc<str>)>,
}

#[derive(Default)]
struct State {
    by_id: Map<EntryId, Held>,
    by_words: Map<Words, EntryId>,
    /// Every question held, by tenant, in the order of the insertions.
    by_age: Map<TenantId, BTreeMap<u64, EntryId>>,
    /// How many each tenant holds.
    shares: BTreeSet<(usize, TenantId)>,
    places: Map<Place, Company>,
    insertions: u64,
}

/// Where vectors are searched.
enum Vectors {
    /// Those of the questions held in process.
    Local(Arc<dyn VectorIndex>),
    /// Those of all replicas. The questions held in process serve the same-words tier alone.
    Shared(SharedSearch),
}

/// The layer.
pub struct Semantic {
    config: SemanticConfig,
    embedder: Arc<dyn Embedder>,
    vectors: Vectors,
    rescorer: Option<Arc<dyn Rescorer>>,
    encoder: Arc<str>,
    state: RwLock<State>,
}

impl Semantic {
    /// An empty layer.
    pub fn new(config: SemanticConfig, embedder: Arc<dyn Embedder>, index: Arc<dyn VectorIndex>) -> Self {
        Self::with(config, embedder, Vectors::Local(index))
    }

    /// An empty layer over an index that the fleet shares. It fills the index by what [`Semantic::findable`] says.
    pub fn shared(config: SemanticConfig, embedder: Arc<dyn Embedder>, search: SharedSearch) -> Self {
        Self::with(config, embedder, Vectors::Shared(search))
    }

    fn with(config: SemanticConfig, embedder: Arc<dyn Embedder>, vectors: Vectors) -> Self {
        let encoder = embedder.id().into();
        Self { config, embedder, vectors, rescorer: None, encoder, state: RwLock::default() }
    }

    /// The shared search, where there is one.
    pub const fn search(&self) -> Option<&SharedSearch> {
        match &self.vectors {
            Vectors::Local(_) => None,
            Vectors::Shared(search) => Some(search),
        }
    }

    /// What a shared index is to hold of a question; none where there is no such index.
    pub fn findable(&self, prepared: &Prepared) -> Option<Findable> {
        self.search()?;
        let Meaning::Vector(vector) = &prepared.meaning else { return None };
        Some(Findable::new(prepared.place, vector.clone(), self.encoder.clone()))
    }

    /// The same with a second look at what passes the gates; the floor is then one of `rescorer`'s scale. Not for a shared
    /// index, whose candidates may be of no entry that is held here.
    #[must_use]
    pub fn rescored(self, rescorer: Arc<dyn Rescorer>) -> Self {
        let encoder = format!("{}+{}", self.embedder.id(), rescorer.id()).into();
        Self { rescorer: Some(rescorer), encoder, ..self }
    }

    /// Its settings.
    pub const fn config(&self) -> &SemanticConfig {
        &self.config
    }

    /// The encoder's identity, and the rescorer's behind it.
    pub fn encoder(&self) -> &str {
        &self.encoder
    }

    /// Names the encoder in the rows of a shared index.
    pub fn encoder_digest(&self) -> [u8; 32] {
        name_digest(&self.encoder)
    }

    /// Reads `text`, and embeds it if there is something to compare it with. An encoder that fails leaves the same-words
    /// tier.
    ///
    /// # Errors
    /// The reason why the text may not be judged.
    pub async fn prepare(&self, partition: &Partition, text: &str) -> Result<Prepared, &'static str> {
        let mut prepared = Prepared::read(partition, text)?;
        if prepared.question.strict() {
            return Ok(prepared);
        }
        prepared.text = self.rescorer.is_some().then(|| text.into());
        prepared.meaning = match &self.vectors {
            // What it could be near to may be another replica's.
            Vectors::Shared(_) => self.embed(text).await.map_or(Meaning::Unknown, Meaning::Vector),
            Vectors::Local(index) => self.meet(index, prepared.place, text).await,
        };
        Ok(prepared)
    }

    /// As [`Semantic::prepare`], for a question that was stored before: a shared index holds its vector already.
    ///
    /// # Errors
    /// The reason why the text may not be judged.
    pub async fn prepare_stored(&self, partition: &Partition, text: &str) -> Result<Prepared, &'static str> {
        match &self.vectors {
            Vectors::Shared(_) => Prepared::read(partition, text),
            Vectors::Local(_) => self.prepare(partition, text).await,
        }
    }

    /// Embeds a question if it has company in its place, and those that waited for company.
    async fn meet(&self, index: &Arc<dyn VectorIndex>, place: Place, text: &str) -> Meaning {
        let waiting = self.state.read().places.get(&place).map(|company| company.waiting.clone());
        let Some(waiting) = waiting else { return Meaning::Alone(text.into()) };
        let Some(vector) = self.embed(text).await else { return Meaning::Unknown };
        self.join(index, &place, waiting).await;
        Meaning::Vector(vector)
    }

    async fn embed(&self, text: &str) -> Option<Arc<[f32]>> {
        let embedded = self.embedder.embed(text).await;
        embedded.inspect_err(|fault| tracing::debug!(%fault, "the question was not embedded")).ok()
    }

    /// Embeds the questions that were alone in `place`. Each waits until it has its vector, so that neither an encoder that
    /// fails nor a caller who leaves costs it.
    async fn join(&self, index: &Arc<dyn VectorIndex>, place: &Place, waiting: Vec<(EntryId, Arc<str>)>) {
        for (id, text) in waiting {
            let Some(vector) = self.embed(&text).await else { return };
            let mut state = self.state.write();
            let Some(company) = state.places.get_mut(place) else { continue };
            if let Some(at) = company.waiting.iter().position(|(waits, _)| *waits == id) {
                company.waiting.swap_remove(at);
                index.insert(place, id, &vector);
            }
        }
    }

    /// The best stored question that passes, and the decision whatever it was.
    pub async fn decide(&self, asked: &Prepared, floor: Option<f32>, now_ms: u64) -> (Option<CacheKey>, Decision) {
        let floor = floor.map_or(self.config.floor, |raised| raised.max(self.config.floor));
        let terms = Terms { serve_from: Some(floor), look_from: floor, sampled: false };
        let (found, decision) = self.decide_under(asked, None, &terms, now_ms).await;
        (found.filter(|found| found.serve).map(|found| found.key), decision)
    }

    /// As [`Semantic::decide`] under the terms of a route, with a floor that the caller has raised.
    pub(crate) async fn decide_under(
        &self,
        asked: &Prepared,
        raised: Option<f32>,
        terms: &Terms,
        now_ms: u64,
    ) -> (Option<Found>, Decision) {
        let at_least = |floor: f32| raised.map_or(floor, |raised| raised.max(floor));
        let (look_from, serve_from) = (at_least(terms.look_from), terms.serve_from.map(at_least));
        let mut decision = Decision { floor: serve_from.or(Some(look_from)), ..Decision::default() };
        let mut found = self.same_words(asked, now_ms, &mut decision);
        if found.is_none() {
            found = self.neighbours(asked, look_from, now_ms, &mut decision).await;
        }
        let Some(key) = found else { return (None, decision) };
        if serve_from.is_some_and(|floor| decision.similarity.is_none_or(|similarity| similarity < floor)) {
            // Under the floor in force: worth a label, not a hit.
            decision.tier = None;
            return (Some(Found { key, serve: false }), decision);
        }
        let serves = self.config.mode == Mode::On && serve_from.is_some();
        decision.shadowed = !serves || terms.sampled;
        decision.sampled = terms.sampled;
        (Some(Found { key, serve: !decision.shadowed }), decision)
    }

    fn same_words(&self, asked: &Prepared, now_ms: u64, decision: &mut Decision) -> Option<CacheKey> {
        let state = self.state.read();
        let held = state.by_words.get(&asked.words).and_then(|id| state.by_id.get(id))?;
        let passes = judge_held(asked, held, 1.0, now_ms, decision)?;
        decision.tier = Some("same-words");
        Some(passes)
    }

    async fn neighbours(&self, asked: &Prepared, floor: f32, now_ms: u64, decision: &mut Decision) -> Option<CacheKey> {
        let Meaning::Vector(vector) = &asked.meaning else { return None };
        let index = match &self.vectors {
            Vectors::Local(index) => index,
            Vectors::Shared(search) => {
                let near = search.nearest(&self.findable(asked)?, CANDIDATES, floor, now_ms).await;
                let judged = near.into_iter().find(|candidate| {
                    Question::read(&candidate.question)
                        .is_ok_and(|stored| judge(asked, (&stored, candidate.key), candidate.similarity, decision))
                });
                decision.tier = judged.is_some().then_some("vector");
                return judged.map(|candidate| candidate.key);
            }
        };
        if let (Some(rescorer), Some(text)) = (&self.rescorer, &asked.text) {
            let near = index.nearest(&asked.place, vector, CANDIDATES, RESCORE_FROM).await;
            let passed = self.passing(asked, near, now_ms, decision);
            return self.best_scored(&**rescorer, text, passed, floor, decision).await;
        }
        let near = index.nearest(&asked.place, vector, CANDIDATES, floor).await;
        let state = self.state.read();
        for neighbour in near {
            let Some(held) = state.by_id.get(&neighbour.id) else { continue };
            if let Some(key) = judge_held(asked, held, neighbour.similarity, now_ms, decision) {
                decision.tier = Some("vector");
                return Some(key);
            }
        }
        None
    }

    /// The nearest of `near` that pass every gate.
    fn passing(&self, asked: &Prepared, near: Vec<Neighbour>, now_ms: u64, decision: &mut Decision) -> Vec<Passed> {
        let state = self.state.read();
        let pass = |neighbour: Neighbour| {
            let held = state.by_id.get(&neighbour.id)?;
            let key = judge_held(asked, held, neighbour.similarity, now_ms, decision)?;
            Some(Passed { id: neighbour.id, key, text: held.text.clone()? })
        };
        near.into_iter().filter_map(pass).take(RESCORED).collect()
    }

    /// The candidate that scores best, if it does so at or over `floor`. Without scores there is none.
    async fn best_scored(
        &self,
        rescorer: &dyn Rescorer,
        asked: &Arc<str>,
        passed: Vec<Passed>,
        floor: f32,
        decision: &mut Decision,
    ) -> Option<CacheKey> {
        if passed.is_empty() {
            return None;
        }
        // The first encoder's says nothing on the second one's scale.
        (decision.similarity, decision.candidate) = (None, None);
        let shown: Vec<_> = passed.iter().map(|candidate| (candidate.id, candidate.text.clone())).collect();
        let answer = rescorer.rescore(asked, &shown).await;
        let scores = answer.inspect_err(|fault| tracing::debug!(%fault, "candidates were not scored")).ok()?;
        // Of equals the nearer one by the first encoder, which comes first.
        let pairs = passed.iter().zip(scores).rev();
        let best = pairs.max_by(|(_, one), (_, other)| one.total_cmp(other));
        let (best, score) = best.filter(|(_, score)| score.is_finite())?;
        (decision.similarity, decision.candidate) = (Some(score), Some(best.key));
        // It may have left while it was scored.
        let holds = || self.state.read().by_id.get(&best.id).is_some_and(|held| held.key == best.key);
        if score < floor || !holds() {
            return None;
        }
        decision.tier = Some("vector");
        Some(best.key)
    }

    /// Makes an answered question findable. An older question of the same words in the same partition gives way.
    ///
    /// The index changes under the lock of the questions: otherwise a question could be evicted between its two insertions
    /// and leave its vector behind for good.
    pub fn insert(&self, id: EntryId, key: CacheKey, expires_ms: u64, prepared: Prepared) {
        let (place, meaning) = (prepared.place, prepared.meaning.clone());
        let mut state = self.state.write();
        let before = state.by_words.get(&prepared.words).copied();
        for gone in before.into_iter().chain([id]) {
            self.drop_held(&mut state, gone);
        }
        state.add(id, key, expires_ms, prepared);
        while state.by_id.len() > self.config.max_entries {
            let Some(oldest) = state.oldest_of_most() else { break };
            self.drop_held(&mut state, oldest);
        }
        if !state.by_id.contains_key(&id) {
            return;
        }
        match (meaning, &self.vectors) {
            (Meaning::Vector(vector), Vectors::Local(index)) => index.insert(&place, id, &vector),
            (Meaning::Alone(text), _) => state.places.entry(place).or_default().waiting.push((id, text)),
            (Meaning::Vector(_) | Meaning::Unknown, _) => {}
        }
    }

    /// Forgets a question.
    pub fn remove(&self, id: EntryId) {
        self.drop_held(&mut self.state.write(), id);
    }

    /// Forgets all questions of a tenant.
    pub fn remove_tenant(&self, tenant: TenantId) {
        let mut state = self.state.write();
        let gone = state.by_age.get(&tenant).map(|held| held.values().copied().collect::<Vec<_>>());
        for id in gone.unwrap_or_default() {
            self.drop_held(&mut state, id);
        }
    }

    fn drop_held(&self, state: &mut State, id: EntryId) {
        if let (Some(place), Vectors::Local(index)) = (state.forget(id), &self.vectors) {
            index.remove(&place, id);
            if let Some(rescorer) = &self.rescorer {
                rescorer.forget(id);
            }
        }
    }

    /// Whether an entry's question is held.
    pub fn holds(&self, id: EntryId) -> bool {
        self.state.read().by_id.contains_key(&id)
    }

    /// Number of questions held.
    pub fn len(&self) -> usize {
        self.state.read().by_id.len()
    }

    /// Number of questions held that nothing was asked near to, so that they have no vector yet.
    pub fn waiting(&self) -> usize {
        self.state.read().places.values().map(|company| company.waiting.len()).sum()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn judge_held(asked: &Prepared, held: &Held, similarity: f32, now_ms: u64, out: &mut Decision) -> Option<CacheKey> {
    if held.expires_ms <= now_ms || held.place.partition != asked.place.partition {
        return None;
    }
    judge(asked, (&held.question, held.key), similarity, out).then_some(held.key)
}

/// Whether a stored question passes every gate.
fn judge(asked: &Prepared, (stored, key): (&Question, CacheKey), similarity: f32, out: &mut Decision) -> bool {
    let verdict = gates::judge(&asked.question, stored);
    let first = out.similarity.is_none();
    if let Err(refusal) = verdict {
        if first {
            out.similarity = Some(similarity);
            out.candidate = Some(key);
            out.refused_by = Some(refusal.gate.as_str());
        }
        return false;
    }
    out.similarity = Some(similarity);
    out.candidate = Some(key);
    out.refused_by = None;
    true
}

impl Prepared {
    fn read(partition: &Partition, text: &str) -> Result<Self, &'static str> {
        let question = Question::read(text).map_err(Ineligible::as_str)?;
        let words = (*partition.as_bytes(), question.same_words());
        let place = Place { partition: *partition, bucket: question.bucket() };
        Ok(Self { question: Arc::new(question), words, place, meaning: Meaning::Unknown, text: None })
    }
}

impl State {
    /// The oldest question of the tenant that holds most.
    fn oldest_of_most(&self) -> Option<EntryId> {
        let (_, tenant) = self.shares.last()?;
        self.by_age.get(tenant)?.first_key_value().map(|(_, id)| *id)
    }

    fn change_share(&mut self, tenant: TenantId, change: impl FnOnce(&mut BTreeMap<u64, EntryId>) -> Option<EntryId>) {
        let held = self.by_age.entry(tenant).or_default();
        self.shares.remove(&(held.len(), tenant));
        let _before = change(held);
        if held.is_empty() {
            self.by_age.remove(&tenant);
        } else {
            self.shares.insert((held.len(), tenant));
        }
    }

    fn add(&mut self, id: EntryId, key: CacheKey, expires_ms: u64, prepared: Prepared) {
        let age = self.insertions;
        self.insertions += 1;
        let Prepared { question, words, place, meaning: _, text } = prepared;
        self.by_words.insert(words, id);
        self.change_share(place.partition.tenant(), |held| held.insert(age, id));
        self.places.entry(place).or_default().held += 1;
        self.by_id.insert(id, Held { question, words, place, key, expires_ms, age, text });
    }

    fn forget(&mut self, id: EntryId) -> Option<Place> {
        let held = self.by_id.remove(&id)?;
        self.change_share(held.place.partition.tenant(), |by_age| by_age.remove(&held.age));
        self.by_words.remove(&held.words);
        if let Entry::Occupied(mut company) = self.places.entry(held.place) {
            company.get_mut().held -= 1;
            company.get_mut().waiting.retain(|(waits, _)| *waits != id);
            if company.get().held == 0 {
                company.remove();
            }
        }
        Some(held.place)
    }
}
