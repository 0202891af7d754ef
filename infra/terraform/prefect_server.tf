# A Prefect server of one's own: a container of the same image, and its database. It holds names, times and released
# numbers, no rows. Only this network reaches it, with the key.

resource "google_service_account" "server" {
  account_id   = "${var.name}-server"
  display_name = "hushrank: Prefect's server; no access to rows, ledger or releases"
}

# postgresql+asyncpg://prefect:PASSWORD@/prefect?host=/cloudsql/PROJECT:REGION:NAME-prefect, added by hand.
resource "google_secret_manager_secret" "prefect_database" {
  count     = local.own_server
  secret_id = "${var.name}-prefect-database"

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

resource "google_secret_manager_secret_iam_member" "server_reads_key" {
  count     = local.own_server
  secret_id = google_secret_manager_secret.prefect_key[0].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.server.member
}

resource "google_secret_manager_secret_iam_member" "server_reads_database" {
  count     = local.own_server
  secret_id = google_secret_manager_secret.prefect_database[0].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.server.member
}

resource "google_project_iam_member" "server_database" {
  count   = local.own_server
  project = var.project
  role    = "roles/cloudsql.client"
  member  = google_service_account.server.member
}

resource "google_compute_global_address" "database" {
  count         = local.own_server
  name          = "${var.name}-prefect"
  purpose       = "VPC_PEERING"
  address_type  = "INTERNAL"
  prefix_length = 20
  network       = google_compute_network.workers.id
}

resource "google_service_networking_connection" "database" {
  count                   = local.own_server
  network                 = google_compute_network.workers.id
  service                 = "servicenetworking.googleapis.com"
  reserved_peering_ranges = [google_compute_global_address.database[0].name]
}

resource "google_sql_database_instance" "prefect" {
  count               = local.own_server
  name                = "${var.name}-prefect"
  region              = var.region
  database_version    = "POSTGRES_18"
  deletion_protection = true
  encryption_key_name = var.kms_key

  settings {
    tier    = "db-custom-1-3840"
    edition = "ENTERPRISE"

    ip_configuration {
      ipv4_enabled    = false
      private_network = google_compute_network.workers.id
      ssl_mode        = "TRUSTED_CLIENT_CERTIFICATE_REQUIRED"
    }

    backup_configuration {
      enabled                        = true
      point_in_time_recovery_enabled = true
    }

    database_flags {
      name  = "cloudsql.enable_pgaudit"
      value = "on"
    }
    database_flags {
      name  = "log_checkpoints"
      value = "on"
    }
    database_flags {
      name  = "log_connections"
      value = "on"
    }
    database_flags {
      name  = "log_disconnections"
      value = "on"
    }
    database_flags {
      name  = "log_duration"
      value = "on"
    }
    database_flags {
      name  = "log_hostname"
      value = "on"
    }
    database_flags {
      name  = "log_lock_waits"
      value = "on"
    }
    database_flags {
      name  = "log_min_error_statement"
      value = "error"
    }
    database_flags {
      name  = "log_min_messages"
      value = "error"
    }
    database_flags {
      name  = "log_statement"
      value = "ddl"
    }
    database_flags {
      name  = "pgaudit.log"
      value = "ddl"
    }
  }

  depends_on = [google_service_networking_connection.database]
}

resource "google_sql_database" "prefect" {
  count    = local.own_server
  name     = "prefect"
  instance = google_sql_database_instance.prefect[0].name
}

resource "google_cloud_run_v2_service" "server" {
  count               = local.own_server
  name                = "${var.name}-prefect"
  location            = var.region
  ingress             = "INGRESS_TRAFFIC_INTERNAL_ONLY"
  deletion_protection = false

  template {
    service_account = google_service_account.server.email

    scaling { # its scheduler must be there, and only once
      min_instance_count = 1
      max_instance_count = 1
    }

    vpc_access {
      egress = "PRIVATE_RANGES_ONLY"
      network_interfaces {
        network    = google_compute_network.workers.id
        subnetwork = google_compute_subnetwork.workers.id
      }
    }

    containers {
      image   = var.image
      command = ["prefect"]
      args    = ["server", "start", "--host", "0.0.0.0", "--port", "4200"]

      env {
        name = "PREFECT_SERVER_API_AUTH_STRING"
        value_source {
          secret_key_ref {
            secret  = google_secret_manager_secret.prefect_key[0].secret_id
            version = "latest"
          }
        }
      }
      env {
        name = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
        value_source {
          secret_key_ref {
            secret  = google_secret_manager_secret.prefect_database[0].secret_id
            version = "latest"
          }
        }
      }
      env { # in memory, the default, the slot of a run that was killed would never be free again
        name  = "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"
        value = "prefect.server.concurrency.lease_storage.filesystem"
      }
      env {
        name  = "PREFECT_UI_API_URL"
        value = "/api"
      }

      ports {
        container_port = 4200
      }

      startup_probe {
        failure_threshold = 30
        period_seconds    = 10
        http_get {
          path = "/api/health"
        }
      }

      resources {
        cpu_idle = false # the scheduler works while no request comes
        limits = {
          cpu    = "1"
          memory = "2Gi"
        }
      }

      volume_mounts {
        name       = "cloudsql"
        mount_path = "/cloudsql"
      }
    }

    volumes {
      name = "cloudsql"
      cloud_sql_instance {
        instances = [google_sql_database_instance.prefect[0].connection_name]
      }
    }
  }

  depends_on = [
    google_secret_manager_secret_iam_member.server_reads_key,
    google_secret_manager_secret_iam_member.server_reads_database,
  ]
}

# Prefect's clients prove themselves with the key, not to Google; the network lets nobody else in.
resource "google_cloud_run_v2_service_iam_member" "server" {
  #checkov:skip=CKV_GCP_102:Ingress is internal, and the server asks for its key
  count    = local.own_server
  name     = google_cloud_run_v2_service.server[0].name
  location = var.region
  role     = "roles/run.invoker"
  member   = "allUsers"
}
