#!/usr/bin/env bash
# install.sh DIR packs this client, and installs it from the packed artefact in
# the empty directory DIR. `DIR/run FILE` then runs a program with it.
set -euo pipefail
dir=$1
cd "$(dirname "$0")/.."

export COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_HOME=$dir/composer COMPOSER_NO_INTERACTION=1
composer validate --quiet --no-check-publish --no-check-version --no-check-lock
mkdir "$dir/dist" "$dir/app"
composer archive --quiet --format=zip --dir="$dir/dist"
cat >"$dir/app/composer.json" <<END
{
    "repositories": [{ "type": "artifact", "url": "$dir/dist" }, { "packagist.org": false }],
    "require": { "card-gateway/client": "*" }
}
END
composer install --quiet --working-dir="$dir/app"
if [ -e "$dir/app/vendor/card-gateway/client/test" ]; then
	echo "the package holds the tests" >&2
	exit 1
fi
cat >"$dir/run" <<END
#!/usr/bin/env bash
set -euo pipefail
cp "\$1" "$dir/app/"
exec php -d display_errors=stderr -d error_log=/dev/stderr -d memory_limit=512M "$dir/app/\$(basename "\$1")"
END
chmod +x "$dir/run"
