# Who read which object, and who wrote it.
resource "google_project_iam_audit_config" "storage" {
  project = var.project
  service = "storage.googleapis.com"

  audit_log_config {
    log_type = "DATA_READ"
  }
  audit_log_config {
    log_type = "DATA_WRITE"
  }
}
