# Four identities, each with what its part of a run needs and no more. Rows are seen by the launcher (headers and
# footers) and the workers; the ledger and the releases by the launcher alone.

resource "google_service_account" "launcher" {
  account_id   = "${var.name}-launcher"
  display_name = "hushrank: reserves, launches, draws the noise, publishes"
}

resource "google_service_account" "worker" {
  account_id   = "${var.name}-worker"
  display_name = "hushrank: reads the rows on Dataflow"
}

resource "google_service_account" "scheduler" {
  account_id   = "${var.name}-scheduler"
  display_name = "hushrank: starts the launcher"
}

resource "google_service_account" "reader" {
  account_id   = "${var.name}-reader"
  display_name = "hushrank: reads releases"
}

locals {
  launcher = google_service_account.launcher.member
  worker   = google_service_account.worker.member
  reader   = google_service_account.reader.member

  object_roles = {
    launcher_input        = { bucket = google_storage_bucket.input.name, role = "roles/storage.objectViewer", member = local.launcher }
    launcher_config       = { bucket = google_storage_bucket.config.name, role = "roles/storage.objectViewer", member = local.launcher }
    launcher_confidential = { bucket = google_storage_bucket.confidential.name, role = "roles/storage.objectUser", member = local.launcher }
    launcher_ledger       = { bucket = google_storage_bucket.ledger.name, role = "roles/storage.objectUser", member = local.launcher }
    launcher_creates      = { bucket = google_storage_bucket.released.name, role = "roles/storage.objectCreator", member = local.launcher }
    launcher_released     = { bucket = google_storage_bucket.released.name, role = "roles/storage.objectViewer", member = local.launcher }
    worker_input          = { bucket = google_storage_bucket.input.name, role = "roles/storage.objectViewer", member = local.worker }
    worker_confidential   = { bucket = google_storage_bucket.confidential.name, role = "roles/storage.objectUser", member = local.worker }
    reader_released       = { bucket = google_storage_bucket.released.name, role = "roles/storage.objectViewer", member = local.reader }
  }
}

resource "google_storage_bucket_iam_member" "objects" {
  for_each = local.object_roles

  bucket = each.value.bucket
  role   = each.value.role
  member = each.value.member
}

# Beam looks a bucket up before it stages files there.
resource "google_storage_bucket_iam_member" "bucket_lookup" {
  for_each = { launcher = local.launcher, worker = local.worker }

  bucket = google_storage_bucket.confidential.name
  role   = "roles/storage.bucketViewer"
  member = each.value
}

resource "google_storage_bucket_iam_member" "readers" {
  for_each = toset(var.readers)

  bucket = google_storage_bucket.released.name
  role   = "roles/storage.objectViewer"
  member = each.value
}

resource "google_storage_bucket_iam_member" "uploaders" {
  for_each = toset(var.uploaders)

  bucket = google_storage_bucket.input.name
  role   = "roles/storage.objectCreator"
  member = each.value
}

# To submit a job, watch it and end it: less than the predefined role of developers.
resource "google_project_iam_custom_role" "launcher" {
  role_id     = "${replace(var.name, "-", "_")}_launcher"
  title       = "hushrank launcher"
  description = "Submit Dataflow jobs, watch them and end them."
  permissions = [
    "dataflow.jobs.cancel",
    "dataflow.jobs.create",
    "dataflow.jobs.get",
    "dataflow.jobs.list",
    "dataflow.messages.list",
    "dataflow.metrics.get",
    "resourcemanager.projects.get",
  ]
}

resource "google_project_iam_member" "launcher_dataflow" {
  project = var.project
  role    = google_project_iam_custom_role.launcher.name
  member  = local.launcher
}

# To take work from the service. The predefined role of workers may also read and create objects in every bucket
# of the project, the ledger's and the releases' among them; this one has what else that role has.
resource "google_project_iam_custom_role" "worker" {
  role_id     = "${replace(var.name, "-", "_")}_worker"
  title       = "hushrank worker"
  description = "Take work from Dataflow and report on it; no access to storage."
  permissions = [
    "autoscaling.sites.readRecommendations",
    "autoscaling.sites.writeMetrics",
    "autoscaling.sites.writeState",
    "compute.instanceGroupManagers.update",
    "compute.instances.delete",
    "compute.instances.setDiskAutoDelete",
    "dataflow.jobs.get",
    "dataflow.shuffle.read",
    "dataflow.shuffle.write",
    "dataflow.streamingWorkItems.ImportState",
    "dataflow.streamingWorkItems.commitWork",
    "dataflow.streamingWorkItems.getData",
    "dataflow.streamingWorkItems.getWork",
    "dataflow.streamingWorkItems.getWorkerMetadata",
    "dataflow.workItems.lease",
    "dataflow.workItems.sendMessage",
    "dataflow.workItems.update",
    "logging.logEntries.create",
    "logging.logEntries.route",
    "monitoring.timeSeries.create",
  ]
}

resource "google_project_iam_member" "worker_dataflow" {
  project = var.project
  role    = google_project_iam_custom_role.worker.name
  member  = local.worker
}

# The launcher may start workers under their identity, and no other.
resource "google_service_account_iam_member" "launcher_starts_workers" {
  service_account_id = google_service_account.worker.name
  role               = "roles/iam.serviceAccountUser"
  member             = local.launcher
}

resource "google_artifact_registry_repository_iam_member" "image" {
  for_each = { launcher = local.launcher, worker = local.worker }

  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.name
  role       = "roles/artifactregistry.reader"
  member     = each.value
}
