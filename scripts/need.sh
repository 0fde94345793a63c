#!/usr/bin/env bash
# Makes sure that the named tools are there: installs them when run as root on a Debian-like system, else says exactly what
# to install. Prints nothing when everything is there.
#
#   scripts/need.sh cc cargo-deny

set -euo pipefail

# tool -> Debian package
declare -A package=(
    [cc]=gcc [curl]=curl [rclone]=rclone [cadaver]=cadaver [litmus]=litmus [fuse3]=fuse3 [zstd]=zstd [openssl]=openssl
    [davfs2]=davfs2 [xz]=xz-utils [time]=time [nginx]=nginx [apache2]=apache2-bin
)
# tool -> what is looked for on the PATH, where that is not the tool's name
declare -A command=([fuse3]=fusermount3 [davfs2]=mount.davfs)

missing=()
for tool in "$@"; do
    if [[ $tool == cargo-* ]]; then
        if ! command -v "$tool" >/dev/null && [[ ! -x ${CARGO_HOME:-$HOME/.cargo}/bin/$tool ]]; then
            echo "need: building $tool (once; it is kept in ${CARGO_HOME:-$HOME/.cargo}/bin)"
            cargo install --locked "$tool"
        fi
        continue
    fi
    if ! command -v "${command[$tool]:-$tool}" >/dev/null && ! [[ -x /usr/sbin/${command[$tool]:-$tool} || -x /sbin/${command[$tool]:-$tool} ]]; then
        missing+=("${package[$tool]:-$tool}")
    fi
done
((${#missing[@]})) || exit 0

if ! command -v apt-get >/dev/null; then
    echo "need: please install what provides: ${missing[*]} (names are Debian's packages)" >&2
    exit 69
fi
if ((EUID != 0)); then
    echo "need: please install: sudo apt-get install ${missing[*]}" >&2
    exit 69
fi
echo "need: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get install --yes --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
    apt-get update >/dev/null
    apt-get install --yes --no-install-recommends "${missing[@]}" >/dev/null
}
