//! What somebody has who stole the catalogue: nothing that opens.

use crate::support::{BETTER, GOOD, World};
use holdfast_auth::{AuthOptions, EscrowKey, NewToken, RecoveryCode, Secret, Token};
use holdfast_base::Uid;
use holdfast_meta::{Role, Slot};
use holdfast_seal::AccountKey;
use holdfast_seal::keys::{CredentialKind, SlotContext, open_escrow_slot, open_slot};

const KINDS: [CredentialKind; 4] =
    [CredentialKind::Password, CredentialKind::Token, CredentialKind::Recovery, CredentialKind::Escrow];

/// A drive with every kind of secret in it, and the secrets.
async fn furnished() -> (World, Vec<Vec<u8>>) {
    let escrow = EscrowKey::generate().expect("generate");
    let public = EscrowKey::parse_public(&escrow.public_text()).expect("parses");
    let world = World::with(AuthOptions { escrow_public_key: Some(public), ..AuthOptions::default() });
    let mut secrets = vec![GOOD.into(), escrow.text().expose().into()];
    for name in ["ann", "ben"] {
        let code = world.person(name).await.recovery_code;
        secrets.push(RecoveryCode::parse(code.expose()).expect("parses").secret().to_vec());
        secrets.push(code.expose().into());
    }
    let ann = world.sign_in("ann", GOOD).await.expect("ann");
    let token = world.accounts.create_token(&ann, NewToken::default()).await.expect("token").token;
    let (_, secret) = token.expose().rsplit_once('_').expect("a token");
    secrets.push(Token::parse(token.expose()).expect("parses").secret().to_vec());
    secrets.push(secret.into());
    world.accounts.create_space(&ann, "team", None).await.expect("space");
    world.accounts.add_member(&ann, "team", "ben", Role::Editor).await.expect("member");
    world.accounts.change_password(&ann, Secret::new(BETTER), None).await.expect("changed");
    secrets.push(BETTER.into());
    secrets.push(ann.key().expose().to_vec());
    for (space, membership) in world.catalogue.spaces_of(ann.account).await.expect("spaces") {
        secrets.push(ann.space_key(space.uid, &membership).expect("opens").expose().to_vec());
    }
    (world, secrets)
}

/// Everything a thief could take for a secret: what the catalogue holds in clear, and guesses.
fn guesses(account: Uid, public: [u8; 32], slot: &Slot) -> Vec<Vec<u8>> {
    let clear = [&b""[..], b"wrong", &account.0, &public, slot.lookup.as_bytes(), slot.label.as_bytes(), &slot.sealed];
    clear.iter().map(|&bytes| bytes.to_vec()).chain([vec![0; 32], vec![0; 20]]).collect()
}

#[tokio::test]
async fn a_catalogue_and_wrapped_keys_without_a_credential_open_nothing() {
    let (world, _) = furnished().await;
    let accounts = world.catalogue.accounts().await.expect("accounts");
    let spaces = world.catalogue.all_spaces().await.expect("spaces");
    let (stranger, _) = AccountKey::generate().expect("generate");
    let mut keys = vec![stranger];
    let mut tried = 0;
    for account in &accounts {
        keys.push(AccountKey::from_private(&account.public_key).expect("a key of public bytes"));
        for slot in world.catalogue.slots(account.id).await.expect("slots") {
            for guess in guesses(account.uid, account.public_key, &slot) {
                for (kind, account) in KINDS.iter().flat_map(|kind| accounts.iter().map(move |a| (*kind, a.uid))) {
                    let context = SlotContext { kind, account, lookup: &slot.lookup };
                    assert!(open_slot(context, &guess, &slot.sealed).is_err());
                    tried += 1;
                }
            }
            for key in &keys {
                assert!(accounts.iter().all(|account| open_escrow_slot(key, account.uid, &slot.sealed).is_err()));
            }
        }
        for (_, membership) in world.catalogue.spaces_of(account.id).await.expect("memberships") {
            for (key, space) in keys.iter().flat_map(|key| spaces.iter().map(move |space| (key, space))) {
                assert!(key.unwrap_space_key(space.uid, &membership.wrapped_key).is_err());
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "only {tried} attempts");
}

#[tokio::test]
async fn a_member_opens_their_own_wrapped_keys_and_no_others() {
    let (world, _) = furnished().await;
    let ben = world.sign_in("ben", GOOD).await.expect("ben");
    for space in world.catalogue.all_spaces().await.expect("spaces") {
        for member in world.catalogue.members(space.id).await.expect("members") {
            let opens = ben.key().unwrap_space_key(space.uid, &member.wrapped_key).is_ok();
            assert_eq!(opens, member.account == ben.account);
        }
    }
}

#[tokio::test]
async fn no_file_of_the_catalogue_holds_a_secret() {
    let (world, secrets) = furnished().await;
    let _ = world.sign_in("hunter2-typed-as-a-name", "guess").await;
    let mut read = 0;
    for file in std::fs::read_dir(world.folder.path()).expect("folder") {
        let bytes = std::fs::read(file.expect("entry").path()).expect("file");
        read += bytes.len();
        for secret in secrets.iter().map(Vec::as_slice).chain([&b"hunter2-typed-as-a-name"[..]]) {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret));
        }
    }
    assert!(read > 10_000, "the catalogue was not found: {read} bytes");
}
