//! Namespaces in XML 1.0: which prefix stands for what, where.

use super::escape::is_nc_name;
use super::reader::bad;
use crate::limits::XML_NAMESPACES_MAX;
use holdfast_base::Result;

/// What the prefix `xml` always stands for.
pub(super) const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";
const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";

/// A name with its prefix and what the prefix stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) prefix: String,
    pub(crate) local: String,
    pub(crate) namespace: String,
}

impl Name {
    pub(crate) fn is(&self, namespace: &str, local: &str) -> bool {
        self.local == local && self.namespace == namespace
    }
}

struct Binding {
    depth: usize,
    prefix: String,
    namespace: String,
}

/// The bindings in force, the innermost last.
pub(super) struct Namespaces(Vec<Binding>);

impl Namespaces {
    pub(super) fn new() -> Self {
        Self(vec![Binding { depth: 0, prefix: "xml".into(), namespace: XML_NAMESPACE.into() }])
    }

    /// Forgets the bindings of elements deeper than `open`.
    pub(super) fn leave(&mut self, open: usize) {
        while self.0.last().is_some_and(|binding| binding.depth > open) {
            self.0.pop();
        }
    }

    /// Prefixes in scope and their namespaces, the innermost binding of each.
    pub(super) fn in_scope(&self) -> Vec<(&str, &str)> {
        let mut scope: Vec<(&str, &str)> = Vec::new();
        for binding in self.0.iter().rev() {
            if !scope.iter().any(|(prefix, _)| *prefix == binding.prefix) {
                scope.push((&binding.prefix, &binding.namespace));
            }
        }
        scope
    }

    /// Binds a prefix on an element `depth` deep.
    pub(super) fn bind(&mut self, depth: usize, prefix: &str, namespace: &str) -> Result<()> {
        let lawful = match prefix {
            "xml" => namespace == XML_NAMESPACE,
            "xmlns" => false,
            // Only the default namespace can be undeclared (Namespaces in XML 1.0, section 5).
            "" => namespace != XML_NAMESPACE && namespace != XMLNS_NAMESPACE,
            _ => !namespace.is_empty() && namespace != XML_NAMESPACE && namespace != XMLNS_NAMESPACE,
        };
        if !lawful {
            return Err(bad("a namespace declaration is not lawful"));
        }
        if self.0.len() == XML_NAMESPACES_MAX {
            return Err(bad(&format!("more than {XML_NAMESPACES_MAX} namespace declarations are in scope")));
        }
        self.0.push(Binding { depth, prefix: prefix.into(), namespace: namespace.into() });
        Ok(())
    }

    /// What a name stands for; the default namespace is for elements only.
    pub(super) fn resolve(&self, prefix: &str, local: &str, element: bool) -> Result<Name> {
        let bound = self.0.iter().rev().find(|binding| binding.prefix == prefix);
        let namespace = match bound {
            _ if prefix.is_empty() && !element => "",
            Some(binding) => &binding.namespace,
            None if prefix.is_empty() => "",
            None => return Err(bad("it uses a namespace prefix that it does not declare")),
        };
        Ok(Name { prefix: prefix.into(), local: local.into(), namespace: namespace.into() })
    }
}

/// Splits a qualified name into prefix and local name, both checked.
pub(super) fn split(name: &str) -> Result<(&str, &str)> {
    let (prefix, local) = name.split_once(':').unwrap_or(("", name));
    if is_nc_name(local) && (is_nc_name(prefix) || (prefix.is_empty() && !name.starts_with(':'))) {
        Ok((prefix, local))
    } else {
        Err(bad("it has a name that XML does not allow"))
    }
}
