//! Phrases that are one thing, and the few that have another wording.
//!
//! A phrase is here only if replacing it keeps the answer in every use, since the same-words tier sees the replacement as
//! well. "How do you" is not "how do I": it may ask the one who answers. "Who wrote" is not "who is the author of".

/// `(phrase, replacement)`, in lower case, words apart by single spaces.
pub(super) const REWRITES: &[(&str, &str)] = &[
    // "I" stands for anybody.
    ("how do i", "how-to"),
    ("how can i", "how-to"),
    ("how to", "how-to"),
    // But "how can I be wrong" asks why, and "how do I look" asks for a judgement.
    ("how do i be", "how do i be"),
    ("how do i feel", "how do i feel"),
    ("how do i look", "how do i look"),
    ("how do i seem", "how do i seem"),
    ("how do i sound", "how do i sound"),
    ("how do i smell", "how do i smell"),
    ("how do i taste", "how do i taste"),
    ("how do i know", "how do i know"),
    ("how do i have", "how do i have"),
    ("how can i be", "how can i be"),
    ("how can i feel", "how can i feel"),
    ("how can i look", "how can i look"),
    ("how can i seem", "how can i seem"),
    ("how can i sound", "how can i sound"),
    ("how can i smell", "how can i smell"),
    ("how can i taste", "how can i taste"),
    ("how can i know", "how can i know"),
    ("how can i have", "how can i have"),
    // Words that belong together.
    ("how many", "how-many"),
    ("how much", "how-much"),
    ("how long", "how-long"),
    ("how often", "how-often"),
    ("how far", "how-far"),
    ("instead of", "instead-of"),
    ("rather than", "rather-than"),
    ("at least", "at-least"),
    ("at most", "at-most"),
    ("used to", "used-to"),
    ("going to", "going-to"),
    ("step by step", "step-by-step"),
    ("act as", "act-as"),
];
