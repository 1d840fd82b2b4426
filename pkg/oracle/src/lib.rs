//! Nothing: this crate is its tests. They hold our published formats against implementations by others, which the product
//! does not depend on.
