# Every night with Prefect: its server, or Prefect Cloud, keeps the schedule; a worker runs the nights under the
# launcher's account. Whoever has the key can start any run there, so it can read what the launcher can read.

locals {
  with_prefect = var.orchestrator == "none" ? 0 : 1
  own_server   = var.orchestrator == "prefect-server" ? 1 : 0
  key_variable = var.orchestrator == "prefect-cloud" ? "PREFECT_API_KEY" : "PREFECT_API_AUTH_STRING"
  prefect_api  = var.orchestrator == "prefect-cloud" ? var.prefect_api_url : "${one(google_cloud_run_v2_service.server[*].uri)}/api"
}

# The key of the workspace in Prefect Cloud, or user:password of the own server. Its value is added by hand, so that
# no state of Terraform holds it.
resource "google_secret_manager_secret" "prefect_key" {
  count     = local.with_prefect
  secret_id = "${var.name}-prefect-key"

  replication {
    user_managed {
      replicas {
        location = var.region

        dynamic "customer_managed_encryption" {
          for_each = var.kms_key[*]
          content {
            kms_key_name = customer_managed_encryption.value
          }
        }
      }
    }
  }
}

resource "google_secret_manager_secret_iam_member" "launcher_reads_key" {
  count     = local.with_prefect
  secret_id = google_secret_manager_secret.prefect_key[0].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.launcher.member
}

# The worker is one container that is always there; Prefect starts each night as a process in it. One that dies is
# started again, and its night is finished by the next run.
resource "google_cloud_run_v2_service" "worker" {
  count               = local.with_prefect
  name                = "${var.name}-worker"
  location            = var.region
  ingress             = "INGRESS_TRAFFIC_INTERNAL_ONLY" # for its health alone
  deletion_protection = false

  template {
    service_account = google_service_account.launcher.email

    scaling {
      min_instance_count = 1
      max_instance_count = 1
    }

    dynamic "vpc_access" { # to a server that only this network reaches
      for_each = range(local.own_server)
      content {
        egress = "ALL_TRAFFIC"
        network_interfaces {
          network    = google_compute_network.workers.id
          subnetwork = google_compute_subnetwork.workers.id
        }
      }
    }

    containers {
      image   = var.image
      command = ["prefect"]
      args    = ["worker", "start", "--pool", "hushrank", "--type", "process", "--limit", "1", "--with-healthcheck"]

      env {
        name  = "PREFECT_API_URL"
        value = local.prefect_api
      }
      env {
        name = local.key_variable
        value_source {
          secret_key_ref {
            secret  = google_secret_manager_secret.prefect_key[0].secret_id
            version = "latest"
          }
        }
      }
      env {
        name  = "PREFECT_WORKER_WEBSERVER_HOST"
        value = "0.0.0.0"
      }
      env {
        name  = "PREFECT_WORKER_WEBSERVER_PORT"
        value = "8080"
      }

      ports {
        container_port = 8080
      }

      startup_probe {
        failure_threshold = 30
        period_seconds    = 10
        http_get {
          path = "/health"
        }
      }

      resources {
        cpu_idle = false # nights run while no request comes
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

  depends_on = [google_secret_manager_secret_iam_member.launcher_reads_key]
}

# Registers the schedule from the image: run it once, and again when survey or schedule change.
resource "google_cloud_run_v2_job" "deploy" {
  count               = local.with_prefect
  name                = "${var.name}-deploy"
  location            = var.region
  deletion_protection = false

  template {
    task_count = 1

    template {
      service_account = google_service_account.launcher.email
      max_retries     = 0

      dynamic "vpc_access" {
        for_each = range(local.own_server)
        content {
          egress = "ALL_TRAFFIC"
          network_interfaces {
            network    = google_compute_network.workers.id
            subnetwork = google_compute_subnetwork.workers.id
          }
        }
      }

      containers {
        image   = var.image
        command = ["hushrank"]
        args    = ["deploy", "/survey/${var.survey}", "--pool", "hushrank", "--cron", var.schedule]

        env {
          name  = "PREFECT_API_URL"
          value = local.prefect_api
        }
        env {
          name = local.key_variable
          value_source {
            secret_key_ref {
              secret  = google_secret_manager_secret.prefect_key[0].secret_id
              version = "latest"
            }
          }
        }

        resources {
          limits = {
            cpu    = "1"
            memory = "2Gi"
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

  depends_on = [google_secret_manager_secret_iam_member.launcher_reads_key]
}
