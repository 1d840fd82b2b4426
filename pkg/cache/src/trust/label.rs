//! What is known of one decision afterwards.

use signet_types::LineageId;

/// One million: scores and weights are counted in millionths, so that every replica reaches the same sums.
pub const UNIT: u32 = 1_000_000;

/// Whether the stored answer would have served the one who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It would.
    Right,
    /// It would not.
    Wrong,
    /// Nobody could tell: the texts differ, and no judge is configured or it gave no clear answer.
    Unknown,
}

impl Verdict {
    /// The verdict as records, rows and metrics name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Unknown => "unknown",
        }
    }

    /// The verdict of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Right, Self::Wrong, Self::Unknown].into_iter().find(|verdict| verdict.as_str() == name)
    }
}

/// Where a verdict comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// A sampled decision: the fresh answer and the stored one were compared as texts.
    Texts,
    /// A sampled decision: the judge model compared the two answers.
    Judge,
    /// A caller complained of a hit. Not a sample, so it may make a route stricter and never looser.
    Feedback,
}

impl Evidence {
    /// The evidence as records, rows and metrics name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Texts => "texts",
            Self::Judge => "judge",
            Self::Feedback => "feedback",
        }
    }

    /// The evidence of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Texts, Self::Judge, Self::Feedback].into_iter().find(|evidence| evidence.as_str() == name)
    }
}

/// Which tier found the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// Equal words in the same order class.
    SameWords,
    /// The nearest vectors.
    Vector,
}

impl Tier {
    /// The tier as decisions, rows and the admin API name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SameWords => "same-words",
            Self::Vector => "vector",
        }
    }

    /// The tier of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::SameWords, Self::Vector].into_iter().find(|tier| tier.as_str() == name)
    }
}

/// A labelled decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Similarity of the candidate, in millionths.
    pub score_e6: u32,
    /// Which tier found it; none where a release before this one labelled it.
    pub tier: Option<Tier>,
    /// Whether its answer was right.
    pub verdict: Verdict,
    /// How that is known.
    pub evidence: Evidence,
    /// How many sampled decisions it counts as, in millionths: 1,000,000 for a sample. Complaints come from all hits and not
    /// from the sampled ones, so that each counts as much as the share of hits that is sampled.
    pub weight_e6: u32,
}

impl Label {
    /// The label of a sampled decision.
    pub const fn sampled(score_e6: u32, tier: Option<Tier>, verdict: Verdict, evidence: Evidence) -> Self {
        Self { score_e6, tier, verdict, evidence, weight_e6: UNIT }
    }

    /// Whether it may be counted at all: praise is no sample, and would let callers loosen the floor for others.
    pub(super) fn counts(&self) -> bool {
        self.evidence != Evidence::Feedback || self.verdict == Verdict::Wrong
    }
}

/// What a route's standing is derived from, in the order of its appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A decision was labelled.
    Label(Label),
    /// An operator says that what was found before counts no more.
    Reset,
}

/// Whose decisions a label speaks of: those of one model as it was asked for, found by one encoder under one generation of
/// the key rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RouteId {
    /// The model as it was asked for.
    pub model: String,
    /// The encoder's identity.
    pub encoder: String,
    /// Generation of the cache key rules.
    pub generation: u64,
}

/// A finding as it is stored and shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRow {
    /// The record of the decision, or of the order; a finding on the same one is held once.
    pub of: LineageId,
    /// Whose it is.
    pub route: RouteId,
    /// What was found.
    pub finding: Finding,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
}
