//! Evaluations of small sets through the whole library.

mod fixture;
mod pairs;
mod replay;
