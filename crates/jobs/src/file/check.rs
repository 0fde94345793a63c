//! What values get wrong together.

use super::said::Said;
use super::{Delete, IfExists, Job, JobText, Loaded, LoginText, Set, SiteText, Step, What, check_name};
use crate::place;
use crate::template::is_group;
use crate::template::{Combination, FILE_PARTS, Template, combinations};
use holdfast_base::{Error, Result};
use std::time::Duration;

/// Connections and files at a time.
const PARALLEL_MAX: u16 = 64;
const PARALLEL_SMALL_MAX: u16 = 512;
/// Tries of a run.
const RETRIES_MAX: u16 = 1_000;
/// A server of mails is not asked more often.
const MAILBOX_EVERY_MIN: Duration = Duration::from_secs(5);
/// Steps of a job.
const STEPS_MAX: usize = 32;

/// Checks a file by itself.
pub(super) fn file(loaded: &Loaded) -> Result<()> {
    for (alias, site) in &loaded.file.sites {
        of_site(alias, site.get_ref())
            .map_err(|error| loaded.error(&site.span(), format!("site {alias}: {}", error.message())))?;
    }
    if loaded.file.mail.as_ref().is_some_and(|mail| mail.command.first().is_none_or(String::is_empty)) {
        return Err(loaded.error(
            &(0..0),
            "mail: its command is a program and its arguments, for example [\"/usr/sbin/sendmail\", \"-t\"]",
        ));
    }
    for (name, job) in &loaded.file.jobs {
        let checked = of_job(name, job.get_ref(), loaded.file.mail.is_some());
        checked.map_err(|error| loaded.error(&job.span(), format!("job {name}: {}", error.message())))?;
    }
    Ok(())
}

fn refuse(wrong: bool, what: &str) -> Result<()> {
    if wrong { Err(Error::invalid(what)) } else { Ok(()) }
}

fn of_site(alias: &str, site: &SiteText) -> Result<()> {
    check_name("site", alias)?;
    refuse(alias == "web", "web: is the beginning of addresses of files of web servers, and no name of a site")?;
    refuse(site.address.trim().is_empty(), "its address is empty")?;
    place::check_address(&site.address)?;
    refuse(site.connections.is_some_and(|count| !(1..=PARALLEL_MAX).contains(&count)), "connections are 1 to 64")?;
    of_login(&site.login)?;
    for (name, login) in &site.logins {
        check_name("login", name)?;
        of_login(login).map_err(|error| error.context(format!("login {name}")))?;
    }
    Ok(())
}

fn of_login(login: &LoginText) -> Result<()> {
    refuse(
        login.password_file.is_some() && login.password_env.is_some(),
        "a password comes from password-file or password-env, not both",
    )?;
    refuse(
        login.token_file.is_some() && login.token_env.is_some(),
        "a token comes from token-file or token-env, not both",
    )
}

fn of_job(name: &str, job: &JobText, mail: bool) -> Result<()> {
    check_name("job", name)?;
    refuse(job.from.is_empty(), "from names nothing")?;
    refuse(job.every.is_some() && job.cron.is_some(), "it is due by every or by cron, not both")?;
    refuse(
        job.start.is_some() && job.cron.is_some(),
        "start is the first time of every, or the only time; cron says all",
    )?;
    refuse(job.parallel.is_some_and(|count| !(1..=PARALLEL_MAX).contains(&count)), "parallel is 1 to 64")?;
    refuse(
        job.parallel_small.is_some_and(|count| !(1..=PARALLEL_SMALL_MAX).contains(&count)),
        "parallel-small is 1 to 512",
    )?;
    refuse(job.retries.as_ref().is_some_and(|retries| retries.count > RETRIES_MAX), "retries.count is 1,000 at most")?;
    if let Some(mailbox) = &job.mailbox {
        refuse(mailbox.from.is_empty(), "mailbox.from names nobody who may start it")?;
        refuse(
            mailbox.every.as_ref().is_some_and(|every| every.0 < MAILBOX_EVERY_MIN),
            "a mailbox is looked at every 5s at most",
        )?;
    }
    of_removal(job)?;
    of_names(job)?;
    let steps = || job.on_success.iter().chain(&job.on_failure);
    refuse(steps().count() > STEPS_MAX, "it can have 32 steps at most")?;
    steps().try_for_each(|step| of_step(step, mail))
}

fn of_removal(job: &JobText) -> Result<()> {
    let (deletes, sync) = (job.delete != Delete::No, job.kind == What::Sync);
    refuse(deletes && !sync, "delete is of kind = \"sync\"; delete-source removes what has arrived from the source")?;
    refuse(job.delete_empty && !deletes, "delete-empty says how far delete goes, which is not there")?;
    refuse(sync && job.from.0.len() != 1, "a sync has one from")?;
    refuse(sync && job.names_from.is_some(), "a sync takes the whole of a folder: names-from is of kind = \"push\"")?;
    refuse(
        deletes && job.delete_source,
        "what is removed from the source would be removed at the destination the next time",
    )?;
    refuse(deletes && job.if_exists == IfExists::KeepBoth, "what is kept beside another would be removed at once")?;
    refuse(
        deletes && job.rename.is_some(),
        "what is renamed cannot be told from what the source has not, and would be removed",
    )?;
    refuse(deletes && job.inbox.is_some(), "an order names some of the files, and the others would be removed")
}

/// Whether templates name what there is.
fn of_names(job: &JobText) -> Result<()> {
    refuse(
        job.rename_match.is_some() && job.rename.is_none(),
        "rename-match says which names rename changes, which is not there",
    )?;
    for name in job.variables.keys() {
        check_name("variable", name)?;
        let taken = FILE_PARTS.contains(&name.as_str()) || matches!(name.as_str(), "today" | "modified");
        refuse(
            taken || name.bytes().all(|byte| byte.is_ascii_digit()),
            &format!("{name} means something of its own in braces, and cannot be a variable"),
        )?;
    }
    let paths = paths(job);
    for path in paths.clone() {
        refuse(
            path.asks_for_time_of_file(),
            &format!("{:?}: modified is the time of a file, which only rename knows", path.text()),
        )?;
        known(path, |name| job.variables.contains_key(name))?;
    }
    let count = combinations(&job.variables, paths.flat_map(Template::names))?.len();
    refuse(count == 0, "its variables have no values")?;
    let Some(rename) = &job.rename else { return Ok(()) };
    let group = |name: &str| job.rename_match.as_deref().is_some_and(|expression| is_group(expression, name));
    known(rename, |name| FILE_PARTS.contains(&name) || group(name) || job.variables.contains_key(name))?;
    for name in rename.names().filter(|name| job.variables.contains_key(*name)) {
        let in_paths = job.to.names().any(|used| used == name);
        refuse(
            !in_paths && job.variables[name].values()?.len() > 1,
            &format!("{{{name}}} has several values, and rename can use one: name it in to as well"),
        )?;
    }
    Ok(())
}

fn paths(job: &JobText) -> impl Iterator<Item = &Template> + Clone {
    job.from.0.iter().map(|from| &**from).chain([&*job.to]).chain(job.names_from.as_deref())
}

fn known(template: &Template, is_known: impl Fn(&str) -> bool) -> Result<()> {
    match template.names().find(|name| !is_known(name)) {
        Some(name) => Err(Error::invalid(format!("{:?}: {{{name}}} is not among its variables", template.text()))),
        None => Ok(()),
    }
}

fn of_step(step: &Step, mail: bool) -> Result<()> {
    let of = [step.notify.is_some(), !step.mail.is_empty(), !step.command.is_empty()];
    refuse(of.into_iter().filter(|is| *is).count() != 1, "a step has one of notify, mail and command")?;
    refuse(
        step.command.first().is_some_and(|program| !program.starts_with('/')),
        "the program of a command is named with its whole path",
    )?;
    refuse(step.policy.is_some() && step.command.is_empty(), "a policy confines a command, which is not there")?;
    refuse(
        !step.mail.is_empty() && !mail,
        "mail is sent by a command: add [mail] with command = [\"/usr/sbin/sendmail\", \"-t\"] to the file",
    )?;
    let token = step.token_file.is_some() || step.token_env.is_some();
    refuse((token || step.ca.is_some()) && step.notify.is_none(), "token-file, token-env and ca are of notify")?;
    refuse(
        step.token_file.is_some() && step.token_env.is_some(),
        "a token comes from token-file or token-env, not both",
    )
}

/// Checks the places of a job, whose sites may be in other files.
pub(super) fn places(job: &Job, set: &Set) -> Result<()> {
    if let Some(mailbox) = &job.text.mailbox {
        crate::runner::check_mailbox(set, job, mailbox)?;
    }
    let all = combinations(&job.text.variables, paths(&job.text).flat_map(Template::names))?;
    let now = jiff::ZonedDateTime::now();
    let first: &Combination = all.first().ok_or_else(|| Error::invalid("its variables have no values"))?;
    let texts = job.text.from.0.iter().map(Said::text).chain([job.text.to.text()]);
    let templates = job.text.from.0.iter().map(|from| &**from).chain([&*job.text.to]);
    for (text, template) in texts.zip(templates) {
        let filled = place::fill(template, &now, first)?;
        place::Spot::parse(&filled, set, job.folder()).map_err(|error| error.context(format!("{text:?}")))?;
    }
    Ok(())
}
