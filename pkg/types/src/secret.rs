//! Values that must not be printed.

use std::fmt;
use zeroize::Zeroize;

/// A secret: `Debug` shows only that there is one, and the memory is wiped on drop.
#[derive(Clone)]
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes `value` into custody.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The secret itself, to be used and never stored elsewhere.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_hold_the_secret() {
        let secret = Secret::new(String::from("sk-live-1"));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(secret.expose(), "sk-live-1");
    }
}
