variable "project" {
  description = "Project that holds everything and pays for it."
  type        = string
}

variable "region" {
  description = "Region of the buckets, the workers and the schedule."
  type        = string
  default     = "europe-west4"
}

variable "name" {
  description = "Prefix of every name; bucket names are <project>-<name>-<what>."
  type        = string
  default     = "hushrank"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,20}[a-z0-9]$", var.name))
    error_message = "Write 3 to 22 lower-case letters, digits or hyphens, a letter first."
  }
}

variable "image" {
  description = "Container image of infra/Dockerfile, by digest: the launcher runs it, and so do the workers."
  type        = string

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "Name the image by its digest, ...@sha256:<64 hexadecimal digits>, so that nobody can exchange it."
  }
}

variable "survey" {
  description = "Path of the job's YAML file in the configuration bucket."
  type        = string
  default     = "survey.yaml"
}

variable "orchestrator" {
  description = "What keeps the schedule: prefect-server (on Cloud Run, with Cloud SQL), prefect-cloud, or none (Cloud Scheduler starts hushrank catch-up --direct)."
  type        = string
  default     = "prefect-server"

  validation {
    condition     = contains(["prefect-server", "prefect-cloud", "none"], var.orchestrator)
    error_message = "Write prefect-server, prefect-cloud or none."
  }
}

variable "prefect_api_url" {
  description = "With prefect-cloud, the workspace: https://api.prefect.cloud/api/accounts/<id>/workspaces/<id>."
  type        = string
  default     = ""

  validation {
    condition     = var.prefect_api_url == "" || can(regex("^https://.+/api/", var.prefect_api_url))
    error_message = "Write the address of the workspace's API, https://api.prefect.cloud/api/accounts/..., or leave it out."
  }
}

variable "schedule" {
  description = "When to rank, as cron says it."
  type        = string
  default     = "0 2 * * *"
}

variable "time_zone" {
  description = "Time zone of the schedule without Prefect; with Prefect it is schedule.timezone of survey.yaml."
  type        = string
  default     = "Etc/UTC"
}

variable "confidential_days" {
  description = "Age in days at which files of runs in the confidential area are deleted. A run must be over by then. Streams of nights keep theirs."
  type        = number
  default     = 30

  validation {
    condition     = var.confidential_days >= 7
    error_message = "Keep the confidential area for at least 7 days: a run that died is taken up from it."
  }
}

variable "released_years" {
  description = "How long nobody, not even an administrator of the bucket, may change or delete a release."
  type        = number
  default     = 5
}

variable "readers" {
  description = "Who may read releases, such as group:staff@example.org."
  type        = list(string)
  default     = []

  validation {
    condition     = !contains(var.readers, "allUsers") && !contains(var.readers, "allAuthenticatedUsers")
    error_message = "Public access is prevented on every bucket: publish releases from a web server of your own."
  }
}

variable "uploaders" {
  description = "Who may add answers to the input bucket, such as serviceAccount:survey@my-project.iam.gserviceaccount.com."
  type        = list(string)
  default     = []
}

variable "kms_key" {
  description = "Cloud KMS key that encrypts buckets and images; null: Google's own keys."
  type        = string
  default     = null
}
