output "survey" {
  description = "What to write into the places of survey.yaml."
  value = {
    input        = "gs://${google_storage_bucket.input.name}"
    confidential = "gs://${google_storage_bucket.confidential.name}/work"
    output       = "gs://${google_storage_bucket.released.name}/<name>"
    ledger       = "gs://${google_storage_bucket.ledger.name}/ledger.jsonl"
    runner = {
      kind            = "dataflow"
      project         = var.project
      region          = var.region
      temp_location   = "gs://${google_storage_bucket.confidential.name}/dataflow"
      image           = var.image
      service_account = google_service_account.worker.email
      subnetwork      = "regions/${var.region}/subnetworks/${google_compute_subnetwork.workers.name}"
    }
  }
}

output "launcher" {
  description = "Cloud Run job that ranks what is due, without Prefect; start it by hand with gcloud run jobs execute."
  value       = one(google_cloud_run_v2_job.launcher[*].name)
}

output "deploy" {
  description = "Cloud Run job that registers the schedule with Prefect: gcloud run jobs execute, once."
  value       = one(google_cloud_run_v2_job.deploy[*].name)
}

output "prefect_api" {
  description = "Address of Prefect's API, as the worker has it."
  value       = local.with_prefect == 1 ? local.prefect_api : null
}

output "images" {
  description = "Repository for the image of infra/Dockerfile."
  value       = google_artifact_registry_repository.images.id
}
