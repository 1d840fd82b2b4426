//! Word pieces by themselves, for models that start from them.

use crate::encoder::EncodeFault;
use crate::table::TableFault;
use crate::tokenise::Tokeniser;
use crate::vocab::{Position, Vocab};

/// The tokeniser of BERT-uncased over a vocabulary of one token a line, whose numbers are the lines'.
///
/// What it refuses ([`EncodeFault`]) the original would cut, drop or replace by `[UNK]`; where it does not refuse, the
/// numbers are the original's. It adds no `[CLS]` and `[SEP]`.
pub struct WordPieces {
    vocab: Vocab,
    text: Vec<u8>,
    count: usize,
}

impl WordPieces {
    /// Reads a vocabulary.
    ///
    /// # Errors
    /// It is no list of different tokens.
    pub fn parse(text: Vec<u8>) -> Result<Self, TableFault> {
        let count = text.strip_suffix(b"\n").unwrap_or(&text).split(|&byte| byte == b'\n').count();
        Ok(Self { vocab: Vocab::parse(&text, count)?, text, count })
    }

    /// How many tokens there are; every number is under it.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The numbers of the pieces of `text`, in order; at least one.
    ///
    /// # Errors
    /// The pieces would not stand for all of the text.
    pub fn pieces(&self, text: &str) -> Result<Vec<u32>, EncodeFault> {
        Tokeniser::new(&self.vocab, &self.text).run(text)
    }

    /// The number of a token that starts a word or stands for itself, such as `[CLS]`.
    pub fn number(&self, token: &str) -> Option<u32> {
        self.vocab.row(&self.text, token.as_bytes(), Position::Head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> WordPieces {
        WordPieces::parse(b"[CLS]\nhow\n##ever\n?\n".to_vec()).expect("a vocabulary")
    }

    #[test]
    fn pieces_have_the_numbers_of_their_lines() {
        assert_eq!(words().pieces("However, how").err(), Some(EncodeFault::UnknownWord), "there is no comma");
        assert_eq!(words().pieces("However how?"), Ok(vec![1, 2, 1, 3]));
        assert_eq!((words().number("[CLS]"), words().number("ever"), words().count()), (Some(0), None, 4));
    }

    #[test]
    fn a_prompt_cannot_name_a_token_that_stands_for_no_text() {
        assert_eq!(words().pieces("[CLS]").err(), Some(EncodeFault::UnknownWord));
    }

    #[test]
    fn a_vocabulary_without_tokens_or_with_one_twice_is_refused() {
        assert!(WordPieces::parse(Vec::new()).is_err());
        assert!(WordPieces::parse(b"a\na\n".to_vec()).is_err());
    }
}
