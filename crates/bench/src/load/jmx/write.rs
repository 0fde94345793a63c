//! A plan as a JMeter file, so that the same load can be made by both.

use std::fmt::Write as _;

use anyhow::ensure;

use super::tree::is_xml;
use crate::load::Think;
use crate::load::plan::{Plan, Step};

/// Writes a plan. What JMeter's simple shape cannot say is an error (a rate) or is named in the returned warnings (what is
/// expected of answers: JMeter takes 2xx and 3xx for good).
pub fn write(plan: &Plan, name: &str) -> anyhow::Result<(String, Vec<String>)> {
    ensure!(plan.rate.is_none(), "a rate cannot be written: JMeter's thread groups are a closed model");
    let mut file = Writer { text: String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"), warnings: Vec::new() };
    file.raw("<jmeterTestPlan version=\"1.2\" properties=\"5.0\" jmeter=\"5.6.3\">\n<hashTree>\n");
    file.open("TestPlan", "TestPlanGui", name);
    file.raw("</TestPlan>\n<hashTree>\n");
    file.group(plan);
    file.raw("<hashTree>\n");
    for step in &plan.steps {
        file.step(step)?;
    }
    file.raw("</hashTree>\n</hashTree>\n</hashTree>\n</jmeterTestPlan>\n");
    Ok((file.text, file.warnings))
}

struct Writer {
    text: String,
    warnings: Vec<String>,
}

impl Writer {
    fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn open(&mut self, tag: &str, gui: &str, name: &str) {
        let name = attribute(name);
        let _ =
            writeln!(self.text, "<{tag} guiclass=\"{gui}\" testclass=\"{tag}\" testname=\"{name}\" enabled=\"true\">");
    }

    /// A property; nothing in its value is a reference.
    fn property(&mut self, kind: &str, name: &str, value: &str) {
        let _ = writeln!(self.text, "<{kind}Prop name=\"{name}\">{}</{kind}Prop>", content(&literal(value)));
    }

    fn string(&mut self, name: &str, value: &str) {
        self.property("string", name, value);
    }

    fn group(&mut self, plan: &Plan) {
        self.open("ThreadGroup", "ThreadGroupGui", "users");
        self.string("ThreadGroup.num_threads", &plan.users.to_string());
        self.string("ThreadGroup.ramp_time", &plan.ramp_up.as_secs_f64().to_string());
        self.string("ThreadGroup.on_sample_error", "continue");
        self.property("bool", "ThreadGroup.same_user_on_next_iteration", &(!plan.fresh_loops).to_string());
        self.property("bool", "ThreadGroup.scheduler", &plan.duration.is_some().to_string());
        if let Some(duration) = plan.duration {
            self.string("ThreadGroup.duration", &duration.as_secs_f64().to_string());
        }
        self.raw("<elementProp name=\"ThreadGroup.main_controller\" elementType=\"LoopController\">\n");
        self.property("bool", "LoopController.continue_forever", "false");
        self.string("LoopController.loops", &plan.loops.map_or_else(|| "-1".to_owned(), |loops| loops.to_string()));
        self.raw("</elementProp>\n</ThreadGroup>\n");
    }

    fn step(&mut self, step: &Step) -> anyhow::Result<()> {
        let url = &step.url;
        self.open("HTTPSamplerProxy", "HttpTestSampleGui", &step.name);
        self.string("HTTPSampler.protocol", url.scheme());
        self.string("HTTPSampler.domain", url.host_str().unwrap_or_default());
        self.string("HTTPSampler.port", &url.port().map_or_else(String::new, |port| port.to_string()));
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
        self.string("HTTPSampler.path", &format!("{}{query}", url.path()));
        self.string("HTTPSampler.method", step.method.name());
        self.property("bool", "HTTPSampler.follow_redirects", "false");
        self.property("bool", "HTTPSampler.auto_redirects", "false");
        self.property("bool", "HTTPSampler.use_keepalive", &step.keep_alive.to_string());
        self.body(step)?;
        self.raw("</HTTPSamplerProxy>\n<hashTree>\n");
        self.headers(step);
        self.credentials(step);
        step.think.iter().for_each(|think| self.timer(*think));
        self.raw("</hashTree>\n");
        if step.expect != crate::load::Expect::default() {
            self.warnings.push(format!("{}: what is expected of its answer is not written", step.name));
        }
        Ok(())
    }

    fn body(&mut self, step: &Step) -> anyhow::Result<()> {
        self.property("bool", "HTTPSampler.postBodyRaw", &step.method.has_body().to_string());
        self.raw("<elementProp name=\"HTTPsampler.Arguments\" elementType=\"Arguments\">\n");
        self.raw("<collectionProp name=\"Arguments.arguments\">\n");
        if !step.body.is_empty() {
            let text = std::str::from_utf8(&step.body).ok().filter(|text| text.chars().all(is_xml));
            let Some(text) = text else { anyhow::bail!("{}: a body that is not text cannot be written", step.name) };
            self.raw("<elementProp name=\"\" elementType=\"HTTPArgument\">\n");
            self.property("bool", "HTTPArgument.always_encode", "false");
            self.string("Argument.value", text);
            self.raw("</elementProp>\n");
        }
        self.raw("</collectionProp>\n</elementProp>\n");
        Ok(())
    }

    fn headers(&mut self, step: &Step) {
        if step.headers.is_empty() {
            return;
        }
        self.open("HeaderManager", "HeaderPanel", "headers");
        self.raw("<collectionProp name=\"HeaderManager.headers\">\n");
        for (name, value) in step.headers.iter() {
            self.raw("<elementProp name=\"\" elementType=\"Header\">\n");
            self.string("Header.name", name);
            self.string("Header.value", value);
            self.raw("</elementProp>\n");
        }
        self.raw("</collectionProp>\n</HeaderManager>\n<hashTree/>\n");
    }

    /// With an empty password: a plan is passed on, and a password is not.
    fn credentials(&mut self, step: &Step) {
        let Some((user, _)) = &step.credentials else { return };
        self.open("AuthManager", "AuthPanel", "credentials");
        self.raw(
            "<collectionProp name=\"AuthManager.auth_list\">\n<elementProp name=\"\" elementType=\"Authorization\">\n",
        );
        self.string("Authorization.url", &step.url.origin().ascii_serialization());
        self.string("Authorization.username", user);
        self.raw("<stringProp name=\"Authorization.password\">${__P(password,)}</stringProp>\n");
        self.string("Authorization.mechanism", "BASIC");
        self.raw("</elementProp>\n</collectionProp>\n</AuthManager>\n<hashTree/>\n");
        self.warnings.push(format!("{}: the password is not written; give it as the property password", step.name));
    }

    fn timer(&mut self, think: Think) {
        let ms = |time: std::time::Duration| (time.as_secs_f64() * 1e3).to_string();
        let (tag, gui, delay, range) = match think {
            Think::Constant(time) => ("ConstantTimer", "ConstantTimerGui", time, None),
            Think::Uniform { least, range } => ("UniformRandomTimer", "UniformRandomTimerGui", least, Some(range)),
            Think::Gaussian { mean, deviation } => {
                ("GaussianRandomTimer", "GaussianRandomTimerGui", mean, Some(deviation))
            }
        };
        self.open(tag, gui, "think");
        self.string("ConstantTimer.delay", &ms(delay));
        if let Some(range) = range {
            self.string("RandomTimer.range", &ms(range));
        }
        let _ = writeln!(self.text, "</{tag}>\n<hashTree/>");
    }
}

/// Keeps a text from being read as one with references.
fn literal(text: &str) -> String {
    if text.contains("${") { text.replace('\\', "\\\\").replace("${", "\\${") } else { text.to_owned() }
}

fn content(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // A literal one would be read as a line feed.
            '\r' => safe.push_str("&#13;"),
            c if is_xml(c) => safe.push(c),
            _ => safe.push('\u{fffd}'),
        }
    }
    safe
}

fn attribute(text: &str) -> String {
    content(text).replace('\n', "&#10;").replace('\t', "&#9;")
}
