//! From the tree of a file to a plan: who stands below whom, and what holds where.

use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::elements::{Scope, define_all, flag, is_configuration, number};
use super::tree::Element;
use super::variables::Variables;
use super::{Found, Properties, sampler};
use crate::load::plan::{Plan, STEPS_MAX, Step};

/// Elements that measure, show or store, or are not part of what runs: the load is the same without them and what is below.
const HARMLESS: [&str; 8] = [
    "ResultCollector",
    "Summariser",
    "BackendListener",
    "ResultSaver",
    "WorkBench",
    "ProxyControl",
    "TestFragmentController",
    "DebugSampler",
];

/// Reads the tree of a file.
pub(super) fn read(root: &Element, properties: &Properties) -> anyhow::Result<Found> {
    ensure!(root.tag == "jmeterTestPlan", "this is no JMeter plan: its root element is {:.40}", root.tag);
    let mut reader = Reader { variables: Variables::new(properties), warnings: Vec::new(), plan: None };
    let top = root.children.iter().find(|child| child.tag == "hashTree").context("the plan has no content")?;
    let mut name = None;
    for (element, below) in pairs(top) {
        match element.tag.as_str() {
            _ if !element.is_enabled() => {}
            "TestPlan" => {
                ensure!(name.is_none(), "the file has two test plans");
                name = Some(element.name().to_owned());
                reader.test_plan(element, below)?;
            }
            _ => reader.harmless(element)?,
        }
    }
    let name = name.context("the file has no enabled test plan")?;
    let plan = reader.plan.context("the plan has no enabled thread group")?;
    reader.warnings.dedup();
    Ok(Found { name, plan, warnings: unique(reader.warnings) })
}

fn unique(warnings: Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    for warning in warnings {
        if !seen.contains(&warning) {
            seen.push(warning);
        }
    }
    seen
}

/// The elements of a `hashTree`, each with the `hashTree` of what is below it.
fn pairs(tree: &Element) -> impl Iterator<Item = (&Element, Option<&Element>)> {
    let children = &tree.children;
    let own = children.iter().enumerate().filter(|(_, child)| child.tag != "hashTree");
    own.map(|(at, child)| (child, children.get(at + 1).filter(|next| next.tag == "hashTree")))
}

/// The enabled elements of a `hashTree` that are no configuration.
fn workers(tree: &Element) -> impl Iterator<Item = (&Element, Option<&Element>)> {
    pairs(tree).filter(|(element, _)| element.is_enabled() && !is_configuration(element))
}

struct Reader<'p> {
    variables: Variables<'p>,
    warnings: Vec<String>,
    plan: Option<Plan>,
}

impl Reader<'_> {
    fn test_plan(&mut self, element: &Element, below: Option<&Element>) -> anyhow::Result<()> {
        if let Some(defined) = element.element("TestPlan.user_defined_variables") {
            define_all(defined.inside("Arguments.arguments"), &mut self.variables)?;
        }
        let Some(below) = below else { return Ok(()) };
        let scope = self.scope(below, &Scope::default())?;
        for (element, below) in workers(below) {
            match element.tag.as_str() {
                "ThreadGroup" => {
                    ensure!(self.plan.is_none(), "{}: a second thread group is not understood", element.name());
                    let mut plan = self.group(element)?;
                    if let Some(below) = below {
                        plan.steps = self.steps(below, &scope)?;
                    }
                    self.plan = Some(plan);
                }
                _ => self.harmless(element)?,
            }
        }
        Ok(())
    }

    /// What holds in a `hashTree`: what holds around it, and the configuration in it.
    fn scope<'e>(&mut self, tree: &'e Element, outer: &Scope<'e>) -> anyhow::Result<Scope<'e>> {
        let mut scope = outer.clone();
        for (element, _) in pairs(tree).filter(|(element, _)| element.is_enabled()) {
            scope.take_in(element, &mut self.variables, &mut self.warnings)?;
        }
        Ok(scope)
    }

    /// Passes over what changes nothing; anything else is an error.
    fn harmless(&mut self, element: &Element) -> anyhow::Result<()> {
        if !HARMLESS.contains(&element.tag.as_str()) {
            bail!(
                "{} ({}): such an element is not understood; disable it in the plan or do without it",
                element.name(),
                element.tag
            );
        }
        self.warnings.push(format!("{} ({}) is passed over", element.name(), element.tag));
        Ok(())
    }

    /// The numbers of a thread group.
    fn group(&mut self, element: &Element) -> anyhow::Result<Plan> {
        let variables = &self.variables;
        let seconds = |property| -> anyhow::Result<Duration> {
            let seconds: f64 = number(element, property, 0.0, variables)?;
            let time = Duration::try_from_secs_f64(seconds).ok();
            time.with_context(|| format!("{}: {property} is negative or too long", element.name()))
        };
        let mut plan = Plan::once(Vec::new());
        plan.users = number(element, "ThreadGroup.num_threads", 1, variables)?;
        plan.ramp_up = seconds("ThreadGroup.ramp_time")?;
        plan.loops = match element.element("ThreadGroup.main_controller") {
            Some(controller) => loops(controller, variables)?,
            None => Some(1),
        };
        if flag(element, "ThreadGroup.scheduler", false, variables)? {
            plan.duration = Some(seconds("ThreadGroup.duration")?).filter(|duration| !duration.is_zero());
            if !seconds("ThreadGroup.delay")?.is_zero() {
                self.warnings.push(format!("{}: the delay before the start is passed over", element.name()));
            }
        }
        plan.fresh_loops = !flag(element, "ThreadGroup.same_user_on_next_iteration", true, variables)?;
        let on_error = element.text_of("ThreadGroup.on_sample_error");
        if !matches!(on_error, "" | "continue") {
            let warning =
                format!("{}: after a failure a user goes on with the next request, not {on_error:.40}", element.name());
            self.warnings.push(warning);
        }
        Ok(plan)
    }

    /// The requests of a `hashTree`, in order.
    fn steps(&mut self, tree: &Element, outer: &Scope<'_>) -> anyhow::Result<Vec<Step>> {
        let scope = self.scope(tree, outer)?;
        let mut steps = Vec::new();
        for (element, below) in workers(tree) {
            let found = match (element.tag.as_str(), below) {
                ("HTTPSamplerProxy" | "HTTPSampler" | "HTTPSampler2", below) => {
                    vec![self.step(element, below, &scope)?]
                }
                ("GenericController", below) => below.map_or(Ok(Vec::new()), |below| self.steps(below, &scope))?,
                ("LoopController", below) => {
                    let times = loops(element, &self.variables)?.with_context(|| {
                        format!("{}: an inner loop without an end is not understood", element.name())
                    })?;
                    let inner = below.map_or(Ok(Vec::new()), |below| self.steps(below, &scope))?;
                    let times = usize::try_from(times).unwrap_or(usize::MAX);
                    ensure_room(inner.len().saturating_mul(times))?;
                    if inner.is_empty() {
                        inner
                    } else {
                        inner.iter().cycle().take(inner.len() * times).cloned().collect()
                    }
                }
                _ => {
                    self.harmless(element)?;
                    continue;
                }
            };
            ensure_room(steps.len() + found.len())?;
            steps.extend(found);
        }
        Ok(steps)
    }

    fn step(&mut self, element: &Element, below: Option<&Element>, outer: &Scope<'_>) -> anyhow::Result<Step> {
        let Some(below) = below else {
            return sampler::step(element, outer, &self.variables, &mut self.warnings);
        };
        let scope = self.scope(below, outer)?;
        for (child, _) in workers(below) {
            self.harmless(child)?;
        }
        sampler::step(element, &scope, &self.variables, &mut self.warnings)
    }
}

fn ensure_room(steps: usize) -> anyhow::Result<()> {
    ensure!(steps <= STEPS_MAX, "a loop has more than {STEPS_MAX} requests");
    Ok(())
}

/// How often a loop controller repeats; `None` for ever.
fn loops(controller: &Element, variables: &Variables<'_>) -> anyhow::Result<Option<u64>> {
    let loops: i64 = number(controller, "LoopController.loops", 1, variables)?;
    let main = controller.tag == "elementProp";
    // In the main controller of a group the flag means that it starts again; an inner one always does with its parent.
    let forever = loops < 0 || (main && flag(controller, "LoopController.continue_forever", false, variables)?);
    Ok(if forever { None } else { Some(u64::try_from(loops).unwrap_or(0)) })
}
