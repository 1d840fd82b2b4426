//! The published vectors, and what must not open.

use super::*;
use crate::TenantKey;
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

fn array(hex: &str) -> [u8; 32] {
    bytes(hex).try_into().expect("32 bytes")
}

fn key(hex: &str) -> PrivateKey {
    PrivateKey::from_private_key(&X25519, &bytes(hex)).expect("a key")
}

fn secret() -> BreakGlassSecret {
    let key = ephemeral();
    let public = BreakGlassKey::of(public_of(&key));
    BreakGlassSecret { key, public }
}

fn place(n: u8) -> (LogId, LineageId) {
    (LogId::from_bytes([n; 16]), LineageId::from_bytes([n + 1; 16]))
}

fn opening() -> Opening {
    TenantKey::from_bytes(Zeroizing::new([7; 32])).opening(place(1).1)
}

/// RFC 9180, appendix A.2.1: what both sides derive and the message of sequence number 0.
#[test]
fn sealing_and_opening_are_those_of_the_published_vectors() {
    let ephemeral = key("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600");
    let recipient = key("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb");
    let enc = array("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a");
    let public = array("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a");
    let common = array("0bbe78490412b4bbea4812666f7916932b828bba79942424abb65244930d69a7");
    let info = bytes("4f6465206f6e2061204772656369616e2055726e");
    let (plain, aad) = (bytes("4265617574792069732074727574682c20747275746820626561757479"), bytes("436f756e742d30"));
    let sealed = bytes("1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28");
    assert_eq!((public_of(&ephemeral), public_of(&recipient)), (enc, public));
    assert_eq!(*shared(&ephemeral, public, &enc, &public).expect("a secret"), common);
    assert_eq!(*shared(&recipient, enc, &enc, &public).expect("a secret"), common);
    let mut body = plain.clone();
    let tag = seal_with(&common, &info, &aad, &mut body);
    assert_eq!([&body[..], &tag].concat(), sealed);
    assert_eq!(open_base(&recipient, public, &enc, &info, &aad, &sealed), Ok(plain));
}

#[test]
fn what_was_sealed_opens_with_its_key_at_its_place_and_nowhere_else() {
    let (secret, place) = (secret(), place(1));
    let sealed = secret.public().seal(place, &opening(), b"a question", b"an answer");
    let opened = secret.open(place, &sealed).expect("it opens");
    assert_eq!((&**opened.request, &**opened.response), (&b"a question"[..], &b"an answer"[..]));
    assert_eq!(opened.opening, opening());
    for other in [(place.0, super::tests::place(5).1), (super::tests::place(5).0, place.1)] {
        assert_eq!(secret.open(other, &sealed).err(), Some(CaptureFault::Changed));
    }
    let wrong = super::tests::secret();
    assert_eq!(wrong.open(place, &sealed).err(), Some(CaptureFault::OtherKey(*secret.public().id())));
    // Nor if what says so is changed too.
    let mut forged = sealed.clone();
    forged[1..=8].copy_from_slice(wrong.public().id());
    assert_eq!(wrong.open(place, &forged).err(), Some(CaptureFault::Changed));
    assert_ne!(sealed, secret.public().seal(place, &opening(), b"a question", b"an answer"), "no seal is made twice");
}

#[test]
fn no_flipped_or_missing_byte_of_what_was_sealed_opens() {
    let (secret, place) = (secret(), place(1));
    let sealed = secret.public().seal(place, &opening(), b"q", b"a");
    for at in 0..sealed.len() {
        for bit in 0..8 {
            let mut bad = sealed.clone();
            bad[at] ^= 1 << bit;
            // The highest bit of an X25519 key is not looked at (RFC 7748 §5), but it is hashed.
            assert!(secret.open(place, &bad).is_err(), "byte {at}, bit {bit}");
        }
        assert!(secret.open(place, &sealed[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn keys_are_those_that_openssl_writes_and_no_others() {
    // Made with `openssl genpkey -algorithm X25519` and `openssl pkey -pubout`.
    let private = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIIBXmR7vjx8a8Y9KlJHRahzjM/aV1NuOONp1l1xEeOD7\n\
                   -----END PRIVATE KEY-----\n";
    let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEAQxDul9iMwfCIpVdsd6sM9cOseX89lROcbIS1QpxZZio=\n\
                  -----END PUBLIC KEY-----\n";
    let secret = BreakGlassSecret::from_pem(private).expect("a private key");
    assert_eq!(BreakGlassKey::from_pem(public).as_ref(), Ok(secret.public()));
    assert!(!format!("{secret:?}").contains("80"), "{secret:?}");
    assert_eq!(BreakGlassKey::from_pem(private).err(), Some(CaptureFault::PublicKey));
    assert_eq!(BreakGlassSecret::from_pem(public).err(), Some(CaptureFault::PrivateKey));
    let pem = |raw: [u8; 32]| {
        let der = STANDARD.encode([&SPKI_HEAD[..], &raw].concat());
        format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n")
    };
    // Points of small order: whoever knows that would open everything.
    let mut one = [0; 32];
    one[0] = 1;
    for weak in [[0; 32], one] {
        assert_eq!(BreakGlassKey::from_pem(&pem(weak)).err(), Some(CaptureFault::PublicKey));
    }
    let signing = crate::Signer::generate().public_key().to_pem();
    for bad in ["", "-----BEGIN PUBLIC KEY-----", &signing, &public.replace("MCow", "MCox")] {
        assert_eq!(BreakGlassKey::from_pem(bad).err(), Some(CaptureFault::PublicKey), "{bad}");
    }
}

proptest! {
    #[test]
    fn bodies_come_back_as_they_were(request: Vec<u8>, response: Vec<u8>) {
        let (secret, place) = (secret(), place(3));
        let opened = secret.open(place, &secret.public().seal(place, &opening(), &request, &response)).expect("it opens");
        prop_assert_eq!((&*opened.request, &*opened.response), (&request, &response));
    }

    #[test]
    fn no_bytes_make_opening_panic(sealed: Vec<u8>, fits: bool) {
        let secret = secret();
        let mut sealed = sealed;
        if fits && sealed.len() > 8 {
            sealed[0] = VERSION;
            sealed[1..=8].copy_from_slice(secret.public().id());
        }
        prop_assert!(secret.open(place(3), &sealed).is_err());
    }
}
