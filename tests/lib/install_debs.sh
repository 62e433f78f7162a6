# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages named as arguments that are not there yet, with apt, as root.
missing=
for p in "$@"; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
echo "installing:$missing"
sudo=
if [ "$(id -u)" != 0 ]; then
	sudo=$(command -v sudo) || { echo "run as root, or install:$missing" >&2; exit 1; }
fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
