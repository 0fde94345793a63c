//! The elements of a plan that say how requests are made: timers, headers, credentials, defaults.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::tree::Element;
use super::variables::Variables;
use crate::duration::DURATION_MAX;
use crate::load::Think;
use crate::load::plan::{HEADERS_MAX, THINKS_MAX};

/// Defaults inside each other, and credentials, that hold for one request: far more than a plan of simple shape has.
const DEFAULTS_MAX: usize = 16;
const AUTHORIZATIONS_MAX: usize = 64;

/// User and password for addresses that begin with `url`.
#[derive(Debug, Clone)]
pub(super) struct Authorization {
    pub(super) url: String,
    pub(super) user: String,
    pub(super) password: String,
}

/// What holds for the requests in some part of the plan.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope<'e> {
    pub(super) thinks: Vec<Think>,
    /// Shared by all requests that have the same.
    pub(super) headers: Arc<[(String, String)]>,
    pub(super) authorizations: Vec<Authorization>,
    /// The innermost first.
    pub(super) defaults: Vec<&'e Element>,
}

/// A number in a property; `default` for an empty one.
pub(super) fn number<T: std::str::FromStr>(
    element: &Element,
    property: &str,
    default: T,
    variables: &Variables<'_>,
) -> anyhow::Result<T> {
    let text = variables.expand(element.text_of(property))?;
    let text = text.trim();
    if text.is_empty() {
        return Ok(default);
    }
    text.parse().ok().with_context(|| format!("{}: {property} is {text:.40?}, not a number that fits", element.name()))
}

/// A truth value in a property.
pub(super) fn flag(
    element: &Element,
    property: &str,
    default: bool,
    variables: &Variables<'_>,
) -> anyhow::Result<bool> {
    let text = variables.expand(element.text_of(property))?;
    match text.trim() {
        "" => Ok(default),
        "true" => Ok(true),
        "false" => Ok(false),
        other => bail!("{}: {property} is {other:.40?}, neither true nor false", element.name()),
    }
}

/// Reads a timer; `None` if the element is none.
pub(super) fn timer(element: &Element, variables: &Variables<'_>) -> anyhow::Result<Option<Think>> {
    let ms = |property| -> anyhow::Result<Duration> {
        let ms: f64 = number(element, property, 0.0, variables)?;
        let time = Duration::try_from_secs_f64(ms / 1e3).ok().filter(|time| *time <= DURATION_MAX);
        time.with_context(|| format!("{}: {property} is negative or more than a day", element.name()))
    };
    Ok(Some(match element.tag.as_str() {
        "ConstantTimer" => Think::Constant(ms("ConstantTimer.delay")?),
        "UniformRandomTimer" => Think::Uniform { least: ms("ConstantTimer.delay")?, range: ms("RandomTimer.range")? },
        "GaussianRandomTimer" => {
            Think::Gaussian { mean: ms("ConstantTimer.delay")?, deviation: ms("RandomTimer.range")? }
        }
        _ => return Ok(None),
    }))
}

/// Whether [`Scope::take_in`] understands the element.
pub(super) fn is_configuration(element: &Element) -> bool {
    const TAGS: [&str; 7] = [
        "HeaderManager",
        "AuthManager",
        "ConfigTestElement",
        "Arguments",
        "ConstantTimer",
        "UniformRandomTimer",
        "GaussianRandomTimer",
    ];
    TAGS.contains(&element.tag.as_str())
}

impl<'e> Scope<'e> {
    /// Adds what a configuration element or timer says; others say nothing.
    pub(super) fn take_in(
        &mut self,
        element: &'e Element,
        variables: &mut Variables<'_>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        match element.tag.as_str() {
            "HeaderManager" => self.add_headers(element, variables)?,
            "AuthManager" => self.add_authorizations(element, variables, warnings)?,
            "ConfigTestElement" => {
                let kind = element.attribute("guiclass").unwrap_or("");
                ensure!(
                    kind.ends_with("HttpDefaultsGui"),
                    "{}: of the default elements only HTTP request defaults are understood, not {kind:?}",
                    element.name()
                );
                ensure!(self.defaults.len() < DEFAULTS_MAX, "more than {DEFAULTS_MAX} defaults hold for one request");
                self.defaults.insert(0, element);
            }
            "Arguments" => define_all(element.inside("Arguments.arguments"), variables)?,
            _ => {
                if let Some(think) = timer(element, variables)? {
                    ensure!(self.thinks.len() < THINKS_MAX, "more than {THINKS_MAX} timers hold for one request");
                    self.thinks.push(think);
                }
            }
        }
        Ok(())
    }

    /// An inner header of the same name takes the place of an outer one.
    fn add_headers(&mut self, element: &Element, variables: &Variables<'_>) -> anyhow::Result<()> {
        let mut own: Vec<(String, String)> = Vec::new();
        for header in element.inside("HeaderManager.headers") {
            let name = variables.expand(header.text_of("Header.name"))?;
            if !name.is_empty() {
                ensure!(own.len() < HEADERS_MAX, "{}: more than {HEADERS_MAX} headers", element.name());
                own.push((name, variables.expand(header.text_of("Header.value"))?));
            }
        }
        let replaced = |name: &str| own.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let kept: Vec<_> = self.headers.iter().filter(|(name, _)| !replaced(name)).cloned().collect();
        ensure!(kept.len() + own.len() <= HEADERS_MAX, "{}: more than {HEADERS_MAX} headers", element.name());
        self.headers = kept.into_iter().chain(own).collect();
        Ok(())
    }

    fn add_authorizations(
        &mut self,
        element: &Element,
        variables: &Variables<'_>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        for entry in element.inside("AuthManager.auth_list") {
            let text = |name| variables.expand(entry.text_of(name));
            match text("Authorization.mechanism")?.as_str() {
                "" | "BASIC" => {}
                "BASIC_DIGEST" => {
                    warnings.push(format!("{}: credentials are sent by the Basic scheme only", element.name()));
                }
                other => bail!("{}: the scheme {other:.40} is not understood, only BASIC", element.name()),
            }
            let found = Authorization {
                url: text("Authorization.url")?,
                user: text("Authorization.username")?,
                password: text("Authorization.password")?,
            };
            ensure!(
                self.authorizations.len() < AUTHORIZATIONS_MAX,
                "more than {AUTHORIZATIONS_MAX} credentials hold for one request"
            );
            self.authorizations.insert(0, found);
        }
        Ok(())
    }

    /// The credentials for an address: the innermost whose URL it begins with.
    pub(super) fn credentials(&self, url: &str) -> Option<(String, String)> {
        let found = self.authorizations.iter().find(|entry| url.starts_with(entry.url.as_str()))?;
        Some((found.user.clone(), found.password.clone()))
    }
}

/// Defines the variables of a list of arguments.
pub(super) fn define_all(arguments: &[Element], variables: &mut Variables<'_>) -> anyhow::Result<()> {
    arguments.iter().try_for_each(|argument| {
        variables.define(argument.text_of("Argument.name"), argument.text_of("Argument.value"))
    })
}
