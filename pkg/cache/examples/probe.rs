use std::io::BufRead;
fn main() {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let Some((a, b)) = line.split_once(" | ") else { continue };
        let v = match (signet_cache::Question::read(a), signet_cache::Question::read(b)) {
            (Ok(x), Ok(y)) => {
                if x.same_words() == y.same_words() {
                    "SAME".to_owned()
                } else {
                    match signet_cache::gates::judge(&x, &y) {
                        Ok(()) => "NEAR".into(),
                        Err(r) => format!("-{}", r.gate.as_str()),
                    }
                }
            }
            (Err(e), _) | (_, Err(e)) => format!("!{}", e.as_str()),
        };
        println!("{v}\t{line}");
    }
}
