# One bucket for each degree of trust. None can be made public, and access goes by bucket alone.

locals {
  bucket_prefix = "${var.project}-${var.name}"
  day           = 24 * 60 * 60 # seconds
}

resource "google_storage_bucket" "input" {
  #checkov:skip=CKV_GCP_62:Reads and writes are in the audit log (audit.tf), which a bucket's own log would repeat
  name                        = "${local.bucket_prefix}-input"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  versioning {
    enabled = true
  }

  dynamic "encryption" {
    for_each = var.kms_key[*]
    content {
      default_kms_key_name = encryption.value
    }
  }
}

# survey.yaml and the catalogue of items: public in content, but not for everybody to change.
resource "google_storage_bucket" "config" {
  #checkov:skip=CKV_GCP_62:Reads and writes are in the audit log (audit.tf), which a bucket's own log would repeat
  name                        = "${local.bucket_prefix}-config"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  versioning {
    enabled = true
  }

  dynamic "encryption" {
    for_each = var.kms_key[*]
    content {
      default_kms_key_name = encryption.value
    }
  }
}

# Exact counts, rejected rows, the engine's temporary files. What is deleted here must be gone: no versions, no
# soft delete; and what a run that died has left goes by itself. Folders of releases have hexadecimal names. Those of
# streams (work/stream-ID) and the list of ledgers (work/ledgers.json) stay: later nights need files of the first one.
resource "google_storage_bucket" "confidential" {
  #checkov:skip=CKV_GCP_62:Reads and writes are in the audit log (audit.tf), which a bucket's own log would repeat
  #checkov:skip=CKV_GCP_78:A version of exact counts would outlive their deletion
  name                        = "${local.bucket_prefix}-confidential"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  versioning {
    enabled = false
  }

  soft_delete_policy {
    retention_duration_seconds = 0
  }

  lifecycle_rule {
    condition {
      age            = var.confidential_days
      matches_prefix = concat(["dataflow/"], [for digit in split("", "0123456789abcdef") : "work/${digit}"])
    }
    action {
      type = "Delete"
    }
  }

  lifecycle_rule {
    condition {
      age = 1
    }
    action {
      type = "AbortIncompleteMultipartUpload"
    }
  }

  dynamic "encryption" {
    for_each = var.kms_key[*]
    content {
      default_kms_key_name = encryption.value
    }
  }
}

# Releases are created once and never replaced: hushrank asks for that, and the retention policy enforces it.
resource "google_storage_bucket" "released" {
  #checkov:skip=CKV_GCP_62:Reads and writes are in the audit log (audit.tf), which a bucket's own log would repeat
  #checkov:skip=CKV_GCP_78:An object under retention is never replaced, so there are no versions to keep
  name                        = "${local.bucket_prefix}-released"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  retention_policy {
    retention_period = tostring(var.released_years * 365 * local.day)
  }

  dynamic "encryption" {
    for_each = var.kms_key[*]
    content {
      default_kms_key_name = encryption.value
    }
  }

  lifecycle {
    prevent_destroy = true
  }
}

# The ledger's object is replaced at every entry, so no retention policy: every version of it is kept instead, and
# what is deleted can be put back for 90 days.
resource "google_storage_bucket" "ledger" {
  #checkov:skip=CKV_GCP_62:Reads and writes are in the audit log (audit.tf), which a bucket's own log would repeat
  name                        = "${local.bucket_prefix}-ledger"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  versioning {
    enabled = true
  }

  soft_delete_policy {
    retention_duration_seconds = 90 * local.day
  }

  lifecycle_rule { # leases and lengths have versions too, of no use after a while
    condition {
      days_since_noncurrent_time = 400
      matches_suffix             = [".lease", ".length"]
    }
    action {
      type = "Delete"
    }
  }

  dynamic "encryption" {
    for_each = var.kms_key[*]
    content {
      default_kms_key_name = encryption.value
    }
  }

  lifecycle {
    prevent_destroy = true
  }
}
