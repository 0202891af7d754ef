# The image, and every night without Prefect (orchestrator = "none"): Cloud Scheduler starts the launcher, a container
# that runs `hushrank catch-up` and ends.

locals {
  without_prefect = var.orchestrator == "none" ? 1 : 0
}

resource "google_artifact_registry_repository" "images" {
  #checkov:skip=CKV_GCP_84:A key of one's own is var.kms_key, which is a choice
  repository_id = var.name
  location      = var.region
  format        = "DOCKER"
  description   = "Image of infra/Dockerfile"
  kms_key_name  = var.kms_key

  docker_config {
    immutable_tags = true
  }
}

resource "google_cloud_run_v2_job" "launcher" {
  count               = local.without_prefect
  name                = "${var.name}-launcher"
  location            = var.region
  deletion_protection = false

  template {
    task_count  = 1
    parallelism = 1

    template {
      service_account = google_service_account.launcher.email
      max_retries     = 0 # the next night takes up what this one left; nothing is drawn twice either way
      timeout         = "43200s"

      containers {
        image   = var.image
        command = ["hushrank"]
        args    = ["catch-up", "--direct", "/survey/${var.survey}"]

        resources {
          limits = {
            cpu    = "2"
            memory = "4Gi"
          }
        }

        volume_mounts {
          name       = "survey"
          mount_path = "/survey"
        }
      }

      volumes {
        name = "survey"
        gcs {
          bucket    = google_storage_bucket.config.name
          read_only = true
        }
      }
    }
  }
}

resource "google_cloud_run_v2_job_iam_member" "scheduler" {
  count    = local.without_prefect
  name     = google_cloud_run_v2_job.launcher[0].name
  location = var.region
  role     = "roles/run.invoker"
  member   = google_service_account.scheduler.member
}

resource "google_cloud_scheduler_job" "nightly" {
  count            = local.without_prefect
  name             = "${var.name}-nightly"
  region           = var.region
  schedule         = var.schedule
  time_zone        = var.time_zone
  attempt_deadline = "180s"

  retry_config {
    retry_count = 3
  }

  http_target {
    http_method = "POST"
    uri         = "https://run.googleapis.com/v2/${google_cloud_run_v2_job.launcher[0].id}:run"

    oauth_token {
      service_account_email = google_service_account.scheduler.email
    }
  }
}
