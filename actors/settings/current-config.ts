/**
 * CurrentConfig holds the configuration in force, including its secrets.
 *
 * Actors never hold the configuration: effects and the host API read it from here. The effective form lacks every
 * credential that was checked for another origin than the configured one (`core/settings/credential-origins.ts`), so no
 * reader can send one there. Only the `redacted` form may leave the process.
 */
import type { Log } from '../../core/ports/log.ts'
import type { CredentialRecordsFile } from '../../core/ports/store.ts'
import { bindCredentials, type DisconnectedCredential } from '../../core/settings/credential-origins.ts'
import { isJsonEqual } from '../../core/settings/json-values.ts'
import { redactConfig } from '../../core/settings/redact.ts'
import type { CompletedConfig, ServiceConfig } from '../../protocol/config.ts'

export interface CurrentConfigPorts {
  readonly credentialRecords: CredentialRecordsFile
  readonly log: Log
  /** Called with each adopted configuration, credentials of other origins included. */
  readonly onAdopted?: ((effective: ServiceConfig) => void) | undefined
}

export class CurrentConfig {
  readonly #ports: CurrentConfigPorts
  #records: ReturnType<CredentialRecordsFile['read']>
  #configuration: CompletedConfig
  #redacted: ServiceConfig
  #fileText: string | undefined
  #isFileInvalid = false
  #disconnected: readonly DisconnectedCredential[] = []

  /** @param fileText content of the file when this configuration was read from it */
  constructor(configuration: CompletedConfig, fileText: string | undefined, ports: CurrentConfigPorts) {
    this.#ports = ports
    this.#records = ports.credentialRecords.read()
    this.#configuration = this.#bind(configuration, [])
    this.#redacted = redactConfig(this.#configuration.effective)
    this.#fileText = fileText
  }

  get configuration(): CompletedConfig {
    return this.#configuration
  }

  /** The same object until the configuration changes. */
  get redacted(): ServiceConfig {
    return this.#redacted
  }

  /** Content of the file when the host last read it. */
  get fileText(): string | undefined {
    return this.#fileText
  }

  /** Whether the file differs from the configuration in force, because its content is invalid or it was deleted. */
  get isFileInvalid(): boolean {
    return this.#isFileInvalid
  }

  /** The credentials that are not used, because another origin is configured than the one they were checked for. */
  get disconnected(): readonly DisconnectedCredential[] {
    return this.#disconnected
  }

  /** @param checked paths of the credentials that were given and checked for the origins of this configuration */
  adopt(configuration: CompletedConfig, fileText: string | undefined, checked: readonly string[] = []): void {
    this.#configuration = this.#bind(configuration, checked)
    this.#redacted = redactConfig(this.#configuration.effective)
    this.#fileText = fileText
    this.#isFileInvalid = false
    this.#ports.onAdopted?.(configuration.effective)
  }

  /** Records that the file now holds an invalid configuration. The last valid configuration stays in force. */
  rejectFile(fileText: string | undefined): void {
    this.#fileText = fileText
    this.#isFileInvalid = true
  }

  #bind({ stored, effective }: CompletedConfig, checked: readonly string[]): CompletedConfig {
    const { credentialRecords, log } = this.#ports
    const { usable, records, disconnected } = bindCredentials(this.#records, effective, checked)
    if (!isJsonEqual(records, this.#records)) {
      this.#records = records
      credentialRecords
        .replace(records)
        .catch((error: unknown) => log.error({ err: error }, 'the origins of credentials could not be saved'))
    }
    for (const each of disconnected)
      if (!this.#disconnected.some((known) => isJsonEqual(known, each)))
        log.warn(
          {
            setting: each.path.slice(1).replace('/', '.'),
            checkedFor: each.checkedFor,
            now: each.configured,
          },
          'a credential is not used, because it was checked for another server; connect again, or change the setting back',
        )
    this.#disconnected = disconnected
    return { stored, effective: usable }
  }
}
