use super::*;

fn path(text: &str) -> TreePath {
    TreePath::parse(text)
}

fn put(at: &str) -> Op {
    Op::Put { path: path(at), seed: 1, len: 10, tokens: false }
}

fn mkcol(at: &str) -> Op {
    Op::Mkcol { path: path(at), tokens: false }
}

fn copy(from: &str, to: &str, overwrite: bool) -> Op {
    let (from, to) = (path(from), path(to));
    Op::Copy { from, to, overwrite, deep: true, tokens: false }
}

fn rename(from: &str, to: &str) -> Op {
    let (from, to) = (path(from), path(to));
    Op::Move { from, to, overwrite: true, tokens: false }
}

fn delete(at: &str) -> Op {
    Op::Delete { path: path(at), tokens: false }
}

fn lock(at: &str, deep: bool, exclusive: bool) -> Op {
    Op::Lock { path: path(at), deep, exclusive, tokens: false }
}

/// folder/ with inner/ and inner/f, and a file g beside it.
fn model() -> Model {
    let mut model = Model::new();
    for op in [mkcol("folder"), mkcol("folder/inner"), put("folder/inner/f"), put("g")] {
        assert_eq!(model.predict(&op).success, [201]);
        model.apply(&op, "");
    }
    model
}

fn refused(model: &Model, op: &Op) -> Vec<u16> {
    let prediction = model.predict(op);
    assert_eq!(prediction.success, Vec::<u16>::new(), "{op:?}");
    prediction.failure
}

#[test]
fn statuses_without_locks_are_those_of_the_rfc() {
    let model = model();
    assert_eq!(model.predict(&put("g")).success, [204, 200]);
    assert_eq!(refused(&model, &put("folder")), [405, 409]);
    assert_eq!(refused(&model, &put("no/f")), [409]);
    assert_eq!(refused(&model, &put("g/f")), [409, 403]);
    assert_eq!(refused(&model, &mkcol("folder")), [405]);
    assert_eq!(refused(&model, &mkcol("no/folder")), [409]);
    assert_eq!(refused(&model, &delete("no")), [404]);
    assert_eq!(refused(&model, &copy("g", "g", true)), [403]);
    assert_eq!(refused(&model, &copy("no", "x", true)), [404]);
    assert_eq!(refused(&model, &copy("g", "folder", false)), [412]);
    assert_eq!(model.predict(&copy("g", "folder", true)).success, [204]);
    assert_eq!(refused(&model, &rename("folder", "folder/inner/x")), [403, 409]);
}

#[test]
fn copies_and_moves_carry_trees_and_properties_and_replace_what_was_there() {
    let mut model = model();
    let note = Op::Proppatch {
        path: path("folder/inner/f"),
        name: "note".to_owned(),
        value: Some("kept".to_owned()),
        tokens: false,
    };
    model.apply(&note, "");
    model.apply(&copy("folder", "copy", true), "");
    model.apply(&rename("folder/inner", "g"), "");
    let paths: Vec<String> = model.nodes().map(|(path, _)| path.to_string()).collect();
    assert_eq!(paths, ["", "copy", "copy/inner", "copy/inner/f", "folder", "g", "g/f"]);
    let properties = model.node(&path("g/f")).map(|node| node.properties.len());
    assert_eq!(properties, Some(1));
}

#[test]
fn locks_refuse_changes_without_their_token() {
    let mut model = model();
    model.apply(&lock("folder", true, true), "t1");
    let refusals = [put("folder/inner/f"), mkcol("folder/new"), lock("folder/inner/f", false, false)];
    for op in refusals {
        assert!(refused(&model, &op).contains(&423), "{op:?}");
    }
    assert!(refused(&model, &rename("folder/inner/f", "h")).contains(&423));
    assert_eq!(model.predict(&copy("folder/inner/f", "h", true)).success, [201]);
    let with_token = Op::Put { path: path("folder/inner/f"), seed: 1, len: 1, tokens: true };
    assert_eq!(model.predict(&with_token).success, [204, 200]);
    assert_eq!(model.tokens_for(&with_token).len(), 1);
    let unlock = Op::Unlock { path: path("folder") };
    assert_eq!(model.predict(&unlock).success, [204]);
    model.apply(&unlock, "");
    assert_eq!(model.predict(&put("folder/inner/f")).success, [204, 200]);
}

#[test]
fn a_lock_of_depth_0_on_a_folder_guards_its_members_names_and_not_their_content() {
    let mut model = model();
    model.apply(&lock("folder/inner", false, true), "t1");
    assert_eq!(model.predict(&put("folder/inner/f")).success, [204, 200]);
    assert_eq!(refused(&model, &put("folder/inner/new")), [423, 207]);
    assert!(refused(&model, &delete("folder/inner/f")).contains(&423));
    assert!(refused(&model, &delete("folder")).contains(&423));
    let replace = model.predict(&copy("g", "folder/inner/f", true));
    assert_eq!((replace.success, replace.failure), (vec![204], vec![423, 207]));
}

#[test]
fn shared_locks_stand_together_and_a_lock_on_nothing_makes_an_empty_file() {
    let mut model = model();
    model.apply(&lock("new", false, false), "t1");
    let made = model.node(&path("new")).and_then(|node| node.content.clone());
    assert_eq!(made.as_deref(), Some(&[][..]));
    assert_eq!(model.predict(&lock("new", false, false)).success, [200]);
    assert_eq!(refused(&model, &lock("new", false, true)), [423, 207]);
    model.apply(&delete("new"), "");
    assert!(model.locks().is_empty());
}

#[test]
fn random_operations_repeat_by_seed_meet_every_kind_and_often_succeed() {
    let run = |seed| {
        let mut generator = Generator::new(seed, Weights::default(), 10_000);
        let mut model = Model::new();
        let (mut done, mut ops) = (0, Vec::new());
        for _ in 0..3000 {
            let op = generator.next_op(&model);
            let prediction = model.predict(&op);
            assert!(!prediction.success.is_empty() || !prediction.failure.is_empty());
            if prediction.failure.is_empty() {
                model.apply(&op, &format!("t{done}"));
                done += 1;
            }
            let parents = model.nodes().filter_map(|(path, _)| path.parent());
            assert!(parents.into_iter().all(|parent| model.is_folder(&parent)), "{op:?}");
            ops.push(op);
        }
        (done, ops, model)
    };
    let (done, ops, model) = run(5);
    assert!((1000..2900).contains(&done), "{done}");
    assert_eq!(run(5).2, model);
    let kinds: std::collections::HashSet<_> = ops.iter().map(std::mem::discriminant).collect();
    assert_eq!(kinds.len(), 9);
}
