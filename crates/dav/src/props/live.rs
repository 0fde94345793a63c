//! The live properties and their names.

use crate::parse::PropName;
use crate::xml::DAV;
use holdfast_drive::TAG_NAMESPACE;

/// The namespace of ownCloud's properties.
pub(crate) const OC: &str = "http://owncloud.org/ns";

/// A live property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Live {
    CreationDate,
    DisplayName,
    ContentLength,
    ContentType,
    ETag,
    LastModified,
    ResourceType,
    LockDiscovery,
    SupportedLock,
    QuotaAvailable,
    QuotaUsed,
    OcChecksums,
    OcSize,
    OcId,
    OcFileId,
    OcPermissions,
}

/// What `allprop` and `propname` cover: RFC 4918's own. RFC 4331 (section 3) keeps quota out of `allprop`.
pub(crate) const ALLPROP: [Live; 9] = [
    Live::CreationDate,
    Live::DisplayName,
    Live::ContentLength,
    Live::ContentType,
    Live::ETag,
    Live::LastModified,
    Live::ResourceType,
    Live::LockDiscovery,
    Live::SupportedLock,
];

const ALL: [Live; 16] = [
    Live::CreationDate,
    Live::DisplayName,
    Live::ContentLength,
    Live::ContentType,
    Live::ETag,
    Live::LastModified,
    Live::ResourceType,
    Live::LockDiscovery,
    Live::SupportedLock,
    Live::QuotaAvailable,
    Live::QuotaUsed,
    Live::OcChecksums,
    Live::OcSize,
    Live::OcId,
    Live::OcFileId,
    Live::OcPermissions,
];

impl Live {
    /// The name with the prefix it has in our answers.
    pub(crate) const fn qualified(self) -> &'static str {
        match self {
            Self::CreationDate => "D:creationdate",
            Self::DisplayName => "D:displayname",
            Self::ContentLength => "D:getcontentlength",
            Self::ContentType => "D:getcontenttype",
            Self::ETag => "D:getetag",
            Self::LastModified => "D:getlastmodified",
            Self::ResourceType => "D:resourcetype",
            Self::LockDiscovery => "D:lockdiscovery",
            Self::SupportedLock => "D:supportedlock",
            Self::QuotaAvailable => "D:quota-available-bytes",
            Self::QuotaUsed => "D:quota-used-bytes",
            Self::OcChecksums => "oc:checksums",
            Self::OcSize => "oc:size",
            Self::OcId => "oc:id",
            Self::OcFileId => "oc:fileid",
            Self::OcPermissions => "oc:permissions",
        }
    }

    /// The live property of this name, if there is one.
    pub(crate) fn of_name(name: &PropName) -> Option<Self> {
        let prefix = match name.namespace.as_str() {
            DAV => "D:",
            OC => "oc:",
            _ => return None,
        };
        ALL.into_iter().find(|live| live.qualified().strip_prefix(prefix) == Some(name.name.as_str()))
    }
}

/// Whether a PROPPATCH may not touch the property.
pub(crate) fn is_protected(name: &PropName) -> bool {
    // Tags are kept as properties, and are not to be written as such.
    name.namespace == TAG_NAMESPACE || Live::of_name(name).is_some_and(|live| live != Live::DisplayName)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_live_property_is_found_by_its_name_and_namespace() {
        for live in ALL {
            let (prefix, name) = live.qualified().split_once(':').expect("has a prefix");
            let namespace = if prefix == "D" { DAV } else { OC };
            assert_eq!(Live::of_name(&PropName { namespace: namespace.into(), name: name.into() }), Some(live));
            assert_eq!(Live::of_name(&PropName { namespace: "urn:x".into(), name: name.into() }), None);
        }
    }

    #[test]
    fn only_the_display_name_can_be_set() {
        let dav = |name: &str| PropName { namespace: DAV.into(), name: name.into() };
        assert!(is_protected(&dav("getetag")) && !is_protected(&dav("displayname")) && !is_protected(&dav("colour")));
    }
}
