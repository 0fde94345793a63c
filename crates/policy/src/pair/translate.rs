//! Makes rules of a pair's lines: one for each node of the tree and each group of programs, and one for each operation with arguments there.

use super::lines::{Line, Lines};
use super::model::{Match, Model};
use super::words::{Word, granted, refused};
use super::{PairOptions, Subject};
use crate::form::RULES_MAX;
use crate::{Conditions, Operations, Programs, Rule, Scope};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Programs that the same lines are about: for all, or by file names.
type Group<'a> = (Option<Arc<Programs>>, Vec<&'a Line>);

/// The rules of all lines, in order of the first line of each node; `None` if there would be more than a policy may have.
pub(super) fn rules(model: &Model, lines: &Lines, options: PairOptions<'_>) -> Option<Vec<Rule>> {
    let groups = groups(model, lines, options)?;
    Some(groups.into_iter().flat_map(|group| of_group(model, &group)).collect())
}

/// The programs there are, with the lines about each.
fn groups<'a>(model: &Model, lines: &'a Lines, options: PairOptions<'_>) -> Option<Vec<Group<'a>>> {
    // Roles multiply: what they make of a short text is bounded before it is made.
    let mut room = RULES_MAX;
    let mut take = |lines: &[&Line]| {
        let wanted = lines.iter().map(|line| line.actions.len() + 1).sum();
        room.checked_sub(wanted).map(|rest| room = rest)
    };
    if model.subject == Match::Never {
        let lines: Vec<_> = lines.rules.iter().collect();
        take(&lines)?;
        return Some(vec![(None, lines)]);
    }
    let mut by_subject: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in &lines.rules {
        by_subject.entry(line.subject.as_deref().unwrap_or_default()).or_default().push(line);
    }
    // Which subjects a program has: itself, or its roles that have rules.
    let mut subjects: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for subject in by_subject.keys() {
        if model.subject == Match::Itself {
            subjects.entry(subject).or_default().insert(subject);
            continue;
        }
        for name in lines.programs.get(*subject).into_iter().flatten() {
            subjects.entry(name).or_default().insert(subject);
        }
    }
    let mut names: BTreeMap<BTreeSet<&str>, BTreeSet<&str>> = BTreeMap::new();
    for (name, subjects) in subjects {
        names.entry(subjects).or_default().insert(name);
    }
    let mut groups = Vec::new();
    for (subjects, names) in names {
        let programs = match options.subject {
            Subject::Calling => named(&names),
            Subject::Launched(program) => {
                let launched = program.file_name().and_then(|name| name.to_str());
                if launched.is_none_or(|launched| !names.contains(launched)) {
                    continue;
                }
                None
            }
        };
        let mut lines: Vec<_> = subjects.iter().flat_map(|subject| by_subject[subject].iter().copied()).collect();
        take(&lines)?;
        lines.sort_by_key(|line| line.number);
        groups.push((programs, lines));
    }
    Some(groups)
}

fn named(names: &BTreeSet<&str>) -> Option<Arc<Programs>> {
    // Without patterns nothing can be wrong with it.
    Programs::new([], names.iter().map(|name| (*name).into()), []).ok().map(Arc::new)
}

/// What the lines say of one node.
#[derive(Default)]
struct Said {
    line: usize,
    plain: BTreeSet<Word>,
    conditional: Vec<(Word, Conditions)>,
}

fn of_group(model: &Model, (programs, lines): &Group<'_>) -> Vec<Rule> {
    let mut nodes: BTreeMap<Scope, Said> = BTreeMap::new();
    for line in lines {
        let scope = match (&line.path, line.below) {
            (None, _) => Scope::Tree(PathBuf::from("/")),
            (Some(path), false) => Scope::Exact(path.clone()),
            (Some(path), true) => Scope::Below(path.clone()),
        };
        let said = nodes.entry(scope).or_insert_with(|| Said { line: line.number, ..Said::default() });
        for (word, conditions) in line.actions.iter() {
            if conditions.count() == 0 {
                said.plain.insert(*word);
            } else {
                said.conditional.push((*word, conditions.clone()));
            }
        }
    }
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort_by_key(|(_, said)| said.line);
    let mut rules: Vec<Rule> =
        nodes.into_iter().flat_map(|(scope, said)| of_node(model.allows, &scope, &said)).collect();
    for rule in &mut rules {
        rule.programs.clone_from(programs);
    }
    rules
}

fn of_node(allows: bool, scope: &Scope, said: &Said) -> Vec<Rule> {
    let refused_by = |words: &BTreeSet<Word>| words.iter().fold(Operations::NONE, |set, word| set.with(refused(*word)));
    let allowed = if allows { granted(&said.plain, None) } else { Operations::ALL.without(refused_by(&said.plain)) };
    let rule = |allow, deny| Rule { line: said.line, ..Rule::new(scope.clone(), allow, deny) };
    let mut rules = vec![rule(allowed, Operations::ALL.without(allowed))];
    let mut seen = HashSet::new();
    for (word, conditions) in &said.conditional {
        let set = if allows { granted(&said.plain, Some(*word)).without(allowed) } else { refused(*word) };
        let set = set.and(conditions.possible());
        if set.is_empty() || !seen.insert((set, conditions.named())) {
            continue;
        }
        let (allow, deny) = if allows { (set, Operations::NONE) } else { (Operations::NONE, set) };
        rules.push(rule(allow, deny).when(conditions.clone()));
    }
    rules
}
