//! Questions for [`crate::replay`]: each in a plain wording, in nearly the same words, and in other words.
//!
//! Some groups are near neighbours on purpose (another number, the opposite, roles exchanged): an answer that crosses
//! from one to the other is a wrong answer.

/// The wordings of one question.
pub(crate) type Group = [&'static str; 3];

/// Frequent questions first.
pub(crate) const GROUPS: [Group; 64] = [
    ["What is a token bucket?", "What's a token bucket?", "Explain to me how a token bucket works."],
    ["How do tides form?", "How do tides form", "Why does the sea rise and fall every day?"],
    [
        "What is the boiling point of ethanol?",
        "What's the boiling point of ethanol?",
        "At which temperature does ethanol boil?",
    ],
    [
        "How do I sharpen a kitchen knife?",
        "How do I sharpen a kitchen knife",
        "Best way to put an edge on a cooking knife?",
    ],
    ["Why is the sky blue?", "why is the sky blue?", "What makes a clear sky look blue?"],
    [
        "How long does it take to boil 2 eggs?",
        "How long does it take to boil 2 eggs",
        "Cooking time for 2 boiled eggs?",
    ],
    [
        "How long does it take to boil 12 eggs?",
        "How long does it take to boil 12 eggs",
        "Cooking time for 12 boiled eggs?",
    ],
    ["Convert 30 Swiss francs to euros.", "Convert 30 Swiss francs to euros", "How many euros are 30 Swiss francs?"],
    ["Convert 30 euros to Swiss francs.", "Convert 30 euros to Swiss francs", "How many Swiss francs are 30 euros?"],
    [
        "How do I enable swap on a server?",
        "How do I enable swap on a server",
        "Steps to switch swap space on for a server?",
    ],
    [
        "How do I disable swap on a server?",
        "How do I disable swap on a server",
        "Steps to switch swap space off for a server?",
    ],
    ["What does a notary do?", "What does a notary do", "Tell me about the work of a notary."],
    [
        "Which plants grow well in shade?",
        "which plants grow well in shade?",
        "Name plants that thrive without much sun.",
    ],
    [
        "Which plants grow badly in shade?",
        "which plants grow badly in shade?",
        "Name plants that suffer without much sun.",
    ],
    ["How does a heat pump work?", "How does a heat pump work", "Explain the principle behind heat pumps."],
    ["Who invented the sewing machine?", "Who invented the sewing machine", "Whose invention was the sewing machine?"],
    ["How much water does a lawn need?", "How much water does a lawn need", "How often should grass be watered?"],
    ["What is the capital of Mongolia?", "What's the capital of Mongolia?", "Which city is Mongolia governed from?"],
    ["What is the capital of Namibia?", "What's the capital of Namibia?", "Which city is Namibia governed from?"],
    [
        "How do I fold a fitted sheet?",
        "How do I fold a fitted sheet",
        "Trick for folding bed sheets with elastic corners?",
    ],
    ["Why do cats purr?", "why do cats purr?", "What is the reason for a cat's purring?"],
    ["Can dogs eat grapes?", "can dogs eat grapes?", "Are grapes safe for a dog?"],
    ["Can dogs eat carrots?", "can dogs eat carrots?", "Are carrots safe for a dog?"],
    ["What is compound interest?", "What's compound interest?", "Explain interest that is paid on interest."],
    ["How do vaccines work?", "How do vaccines work", "What happens in the body after a vaccination?"],
    ["What causes thunder?", "what causes thunder?", "Where does the sound of thunder come from?"],
    [
        "How do I remove red wine from a carpet?",
        "How can I remove red wine from a carpet?",
        "Red wine on my rug, what now?",
    ],
    [
        "How do I remove candle wax from a carpet?",
        "How can I remove candle wax from a carpet?",
        "Wax on my rug, what now?",
    ],
    [
        "What is the difference between a fjord and a bay?",
        "What's the difference between a fjord and a bay?",
        "Fjord or bay: how do they differ?",
    ],
    ["How far is the moon from the earth?", "How far is the moon from the earth", "What is the distance to the moon?"],
    ["How far is the sun from the earth?", "How far is the sun from the earth", "What is the distance to the sun?"],
    ["How do I start a sourdough?", "How do I start a sourdough", "Making a sourdough starter from scratch?"],
    ["What does an actuary do?", "What does an actuary do", "Tell me about the work of an actuary."],
    [
        "Why do leaves change colour in autumn?",
        "why do leaves change colour in autumn?",
        "What turns leaves red and yellow in the fall?",
    ],
    [
        "How many bones has an adult human?",
        "How many bones has an adult human",
        "Number of bones in a grown-up's skeleton?",
    ],
    [
        "How many teeth has an adult human?",
        "How many teeth has an adult human",
        "Number of teeth in a grown-up's mouth?",
    ],
    [
        "How do I change a bicycle tube?",
        "How do I change a bicycle tube",
        "My bike has a flat, how do I put in a new tube?",
    ],
    ["What is a black hole?", "What's a black hole?", "Describe a black hole in simple terms."],
    ["When was paper invented?", "when was paper invented?", "How old is the invention of paper?"],
    ["When was glass invented?", "when was glass invented?", "How old is the invention of glass?"],
    ["Is it legal to collect rainwater?", "Is it legal to collect rainwater", "May I gather rainwater from my roof?"],
    [
        "How do noise-cancelling headphones work?",
        "How do noise-cancelling headphones work",
        "What makes headphones cancel noise?",
    ],
    ["What should I plant in March?", "What should I plant in March", "Which seeds go into the ground in March?"],
    ["What should I plant in May?", "What should I plant in May", "Which seeds go into the ground in May?"],
    ["How is cheese made?", "how is cheese made?", "What are the steps from milk to cheese?"],
    ["What is a leap year?", "What's a leap year?", "Why do some years have one more day?"],
    ["Did Anna lend money to Boris?", "Did Anna lend money to Boris", "Was it Anna who gave Boris a loan?"],
    ["Did Boris lend money to Anna?", "Did Boris lend money to Anna", "Was it Boris who gave Anna a loan?"],
    ["How do I descale a kettle?", "How do I descale a kettle", "Getting limescale out of my kettle?"],
    [
        "Which muscles does rowing train?",
        "Which muscles does rowing train",
        "What body parts get stronger from rowing?",
    ],
    ["How loud is a jet engine?", "How loud is a jet engine", "What noise level does a jet engine reach?"],
    ["What is the melting point of tin?", "What's the melting point of tin?", "At which temperature does tin melt?"],
    ["What is the melting point of lead?", "What's the melting point of lead?", "At which temperature does lead melt?"],
    ["How do I tie a bowline?", "How do I tie a bowline", "Teach me the bowline knot."],
    ["Why does bread go stale?", "Why does bread go stale", "What happens in old bread to make it hard?"],
    ["How does a sextant work?", "How does a sextant work", "Explain finding a position with a sextant."],
    ["Who paints the lines on roads?", "Who paints the lines on roads", "Whose job are the markings on a road?"],
    [
        "What is a good tip in a restaurant?",
        "What's a good tip in a restaurant?",
        "How much should one tip when eating out?",
    ],
    ["How do bees make honey?", "How do bees make honey, please?", "From nectar to honey: what do bees do?"],
    ["How do I back up 500 photos?", "How do I back up 500 photos", "Safest way to keep copies of 500 photos?"],
    ["How do I back up 5000 photos?", "How do I back up 5000 photos", "Safest way to keep copies of 5000 photos?"],
    ["What is the deepest lake?", "What's the deepest lake?", "Which lake has the greatest depth?"],
    ["How do glaciers move?", "How do glaciers move", "What makes ice flow down a valley?"],
    ["Why do we yawn?", "why do we yawn?", "What is yawning good for?"],
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::GROUPS;

    #[test]
    fn no_wording_belongs_to_two_questions_and_none_needs_escapes() {
        let all: Vec<&str> = GROUPS.iter().flatten().copied().collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert!(all.iter().all(|text| text.is_ascii() && !text.contains(['"', '\\'])));
    }
}
