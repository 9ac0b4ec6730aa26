/**
 * CurrentConfig holds the configuration in force, including its secrets.
 *
 * Actors never hold the configuration: effects and the host API read it from here. Only the `redacted` form may leave
 * the process.
 */
import { redactConfig } from '../../core/settings/redact.ts'
import type { CompletedConfig, ServiceConfig } from '../../protocol/config.ts'

export class CurrentConfig {
  #configuration: CompletedConfig
  #redacted: ServiceConfig
  #fileText: string | undefined
  #isFileInvalid = false

  readonly #onAdopted: (effective: ServiceConfig) => void

  /** @param fileText content of the file when this configuration was read from it */
  constructor(
    configuration: CompletedConfig,
    fileText: string | undefined,
    adopted: (effective: ServiceConfig) => void = () => {},
  ) {
    this.#onAdopted = adopted
    this.#configuration = configuration
    this.#redacted = redactConfig(configuration.effective)
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

  adopt(configuration: CompletedConfig, fileText: string | undefined): void {
    this.#configuration = configuration
    this.#redacted = redactConfig(configuration.effective)
    this.#fileText = fileText
    this.#isFileInvalid = false
    this.#onAdopted(configuration.effective)
  }

  /** Records that the file now holds an invalid configuration. The last valid configuration stays in force. */
  rejectFile(fileText: string | undefined): void {
    this.#fileText = fileText
    this.#isFileInvalid = true
  }
}
