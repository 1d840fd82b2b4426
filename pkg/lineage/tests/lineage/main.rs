//! Records are written, moved, lost and tampered with; the verifier says what is left of them.

mod anchors;
mod flips;
mod forms;
mod golden;
mod gone;
mod kept;
mod keyring;
mod losses;
mod properties;
mod sample;
mod signatures;
mod tamper;
mod tlog;
mod truth;
