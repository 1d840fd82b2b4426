//! The tokeniser of BERT-uncased: split into words, then into word pieces, longest first.
//!
//! It follows the algorithm of the model that the table was distilled from, but where that algorithm loses what a reader
//! would see, this one refuses: a word it does not know becomes no `[UNK]`, a long text is not cut, a mark that is a vowel
//! in its script is not dropped. Each of these makes two different prompts equal, and a wrong hit is worse than a miss.

use crate::encoder::EncodeFault;
use crate::vocab::{Position, Vocab};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Pieces of the longest text that is encoded.
pub(crate) const MAX_PIECES: usize = 254;
/// Characters of the longest word that is looked up.
const MAX_WORD: usize = 100;

/// One pass over one text.
pub(crate) struct Tokeniser<'a> {
    vocab: &'a Vocab,
    text: &'a [u8],
    word: String,
    word_chars: usize,
    letters: usize,
    foreign: usize,
    pieces: Vec<u32>,
}

impl<'a> Tokeniser<'a> {
    /// A tokeniser over `vocab`, whose text is `text`.
    pub(crate) fn new(vocab: &'a Vocab, text: &'a [u8]) -> Self {
        let (word, pieces) = (String::with_capacity(32), Vec::with_capacity(64));
        Self { vocab, text, word, word_chars: 0, letters: 0, foreign: 0, pieces }
    }

    /// The rows of the pieces of `prompt`, in order; at least one, at most [`MAX_PIECES`].
    pub(crate) fn run(mut self, prompt: &str) -> Result<Vec<u32>, EncodeFault> {
        for c in prompt.chars() {
            if c.is_ascii_alphanumeric() {
                self.push(c.to_ascii_lowercase())?;
            } else if c.is_ascii() {
                self.plain(c.to_ascii_lowercase())?;
            } else {
                self.decomposed(c)?;
            }
        }
        self.end_word()?;
        if self.foreign * 2 > self.letters {
            return Err(EncodeFault::Script);
        }
        if self.pieces.is_empty() { Err(EncodeFault::Empty) } else { Ok(self.pieces) }
    }

    /// Takes a character that needs no more folding.
    fn plain(&mut self, c: char) -> Result<(), EncodeFault> {
        if c.is_whitespace() {
            self.end_word()
        } else if is_punctuation(c) || is_ideograph(c) {
            self.end_word()?;
            self.push(c)?;
            self.end_word()
        } else if c.is_control() {
            Ok(())
        } else {
            self.push(c)
        }
    }

    /// Takes a character outside ASCII: decomposed, without accents, in lower case.
    fn decomposed(&mut self, c: char) -> Result<(), EncodeFault> {
        for part in std::iter::once(c).nfd() {
            if is_combining_mark(part) {
                // Accents may go, as the model was trained without them. Elsewhere marks are vowels.
                if !matches!(part, '\u{300}'..='\u{36f}') {
                    return Err(EncodeFault::Script);
                }
                continue;
            }
            part.to_lowercase().try_for_each(|c| self.plain(c))?;
        }
        Ok(())
    }

    fn push(&mut self, c: char) -> Result<(), EncodeFault> {
        self.word_chars += 1;
        if self.word_chars > MAX_WORD {
            return Err(EncodeFault::UnknownWord);
        }
        if c.is_alphabetic() {
            self.letters += 1;
            self.foreign += usize::from(c > '\u{24f}'); // behind Latin Extended-B
        }
        self.word.push(c);
        Ok(())
    }

    /// Splits the collected word into pieces: at each place the longest that the vocabulary has.
    fn end_word(&mut self) -> Result<(), EncodeFault> {
        let (mut start, mut position) = (0, Position::Head);
        while start < self.word.len() {
            let (row, len) = self.longest_piece(&self.word[start..], position).ok_or(EncodeFault::UnknownWord)?;
            if self.pieces.len() == MAX_PIECES {
                return Err(EncodeFault::TooLong);
            }
            self.pieces.push(row);
            (start, position) = (start + len, Position::Tail);
        }
        self.word.clear();
        self.word_chars = 0;
        Ok(())
    }

    fn longest_piece(&self, rest: &str, position: Position) -> Option<(u32, usize)> {
        let longest = rest.floor_char_boundary(rest.len().min(self.vocab.longest()));
        let mut ends = (1..=longest).rev().filter(|&end| rest.is_char_boundary(end));
        ends.find_map(|end| Some((self.vocab.row(self.text, &rest.as_bytes()[..end], position)?, end)))
    }
}

/// ASCII punctuation as BERT has it (all ASCII symbols), and beyond ASCII the punctuation of Latin and CJK text.
fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(c,
            '¡' | '§' | '«' | '¶' | '·' | '»' | '¿'
            | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}'
            | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}'
            | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff65}')
}

/// The CJK ideograph blocks, each of whose characters is a word of its own.
fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2ceaf}' | '\u{2f800}'..='\u{2fa1f}')
}
