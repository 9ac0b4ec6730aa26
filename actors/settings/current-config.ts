/**
 * Where the configuration in force is kept, secrets included. Lives never hold it; effects and the front desk read
 * it here, and what leaves the process leaves as `redacted`.
 */

import { redactConfig } from '../../core/settings/redact.ts'
import type { CompletedConfig, ServiceConfig } from '../../protocol/config.ts'

export class CurrentConfig {
  #configuration: CompletedConfig
  #redacted: ServiceConfig
  #fileText: string | undefined
  #isFileInvalid = false

  readonly #onAdopted: (effective: ServiceConfig) => void

  /** @param fileText what the file held when this configuration was read from it */
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

  /** What the file held when it was last looked at. */
  get fileText(): string | undefined {
    return this.#fileText
  }

  /** The file does not say what is in force: it holds something that does not validate, or is gone. */
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

  /** The file was edited into something that can't be used: remember it, keep the last good configuration. */
  rejectFile(fileText: string | undefined): void {
    this.#fileText = fileText
    this.#isFileInvalid = true
  }
}
