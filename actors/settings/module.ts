/** The settings module changes the configuration: by patches, by checked credentials, and by hand edits of the file. */
import { changedPaths } from '../../core/audit-paths.ts'
import type { CredentialChange } from '../../core/ports/accounts.ts'
import { no, type Result, yes } from '../../core/result.ts'
import {
  type AdoptedEdit,
  adoptEdit,
  type DecidedChange,
  decideChange,
  decideCredentials,
} from '../../core/settings/change.ts'
import { isJsonEqual, valueAt } from '../../core/settings/json-values.ts'
import { type ReposInUse, requireConfirmation } from '../../core/settings/powerful-keys.ts'
import { CLIENT_SECRET_PATHS, CREDENTIAL_PATHS, type ServiceConfig } from '../../protocol/config.ts'
import { SETTINGS_CHANGES_WAITING_MAX } from '../../protocol/limits.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { SettingsUpdateResponse } from '../../protocol/routes.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import { effectHandlers } from '../runtime/module.ts'
import { PendingRequests } from '../runtime/pending-requests.ts'
import { SETTINGS, type SettingsEffect, type SettingsEvent, settingsKind } from './settings.machine.ts'

/** How long an invalid text of the configuration file must stay before it counts as an edit and not as half of one. */
export const CONFIG_SETTLE_MS = 1_000
/** How often an invalid text may be replaced by another before the last of them counts. */
export const CONFIG_SETTLE_TRIES_MAX = 10

export interface SettingsView {
  /** Resolves once the change is decided, on disk and announced. */
  apply(request: SettingsRequest): Promise<Result<SettingsUpdateResponse>>
  /** Refused as `conflict` when `isStillWanted` says no at the moment of writing. */
  saveCredentials(
    change: CredentialChange,
    isStillWanted: (config: ServiceConfig) => boolean,
  ): Promise<Result<void>>
  onFileTouched(): void
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly settings: SettingsView
  }
}

export const settingsModule = defineHostModule({
  name: 'settings',
  kinds: [settingsKind],
  create(context) {
    const { system } = context
    const requests: SettingsRequests = new PendingRequests()
    const sendEvent = (event: SettingsEvent) => system.send(SETTINGS, SETTINGS, event)
    const apply = (request: SettingsRequest) => {
      const { handle, answer } = requests.add(request)
      if (!sendEvent({ type: 'change requested', handle }))
        requests.settle(handle, no('unavailable', 'the service is stopping'))
      return answer
    }
    return {
      view: {
        apply,
        async saveCredentials(change, isStillWanted) {
          const saved = await apply({ is: 'credentials', change, isStillWanted })
          return saved.ok ? yes(undefined) : saved
        },
        onFileTouched: () => void sendEvent({ type: 'file changed' }),
      },
      effects: effectHandlers<SettingsEffect>({
        settings: settingsEffects(context, requests, sendEvent),
      }),
      stop: () =>
        requests.settleAll(
          no('unavailable', 'the service stopped; whether the change was made, config.json tells'),
        ),
      sizes: () => ({ waitingForSettings: requests.size }),
    }
  },
})

/** A requested change of the configuration. */
type SettingsRequest =
  | {
      readonly is: 'patch'
      readonly patch: Record<string, unknown>
      /** The changed settings that give power over the machine, as a person confirmed them. */
      readonly confirm: readonly string[]
      readonly reposInUse: ReposInUse
    }
  /**
   * Credentials that their provider has accepted. `isStillWanted` is asked right before writing, with the configuration
   * then in force; when it says no, the change is refused as `conflict`.
   */
  | {
      readonly is: 'credentials'
      readonly change: CredentialChange
      readonly isStillWanted: (config: ServiceConfig) => boolean
    }

type SettingsRequests = PendingRequests<SettingsRequest, SettingsUpdateResponse>

// ---- effects -----------------------------------------------------------------------------------------------------

/**
 * Carries out the effects of the settings machine: decides changes, replaces the configuration file, adopts edits made
 * by hand, answers requests and publishes the new configuration to the dashboards.
 *
 * Applying a change and reading the file each end with one event to the settings actor, also after a failure.
 */
function settingsEffects(
  context: HostContext,
  requests: SettingsRequests,
  sendEvent: (event: SettingsEvent) => void,
): (effect: SettingsEffect) => void {
  const { broadcast, currentConfig, onConfigChange } = context
  /** Outcomes that wait for the settings actor's `answer` effect, by handle. */
  const outcomes = new Map<number, Result<SettingsUpdateResponse>>()

  return (effect) => {
    switch (effect.type) {
      case 'settings.apply change':
        void applyChange(context, requests, effect.handle, outcomes).then(sendEvent)
        return
      case 'settings.read file':
        void readFile(context).then(sendEvent)
        return
      case 'settings.answer':
        requests.settle(
          effect.handle,
          outcomes.get(effect.handle) ?? no('failed', 'the change was not decided'),
        )
        outcomes.delete(effect.handle)
        return
      case 'settings.refuse overload':
        requests.settle(
          effect.handle,
          no(
            'unavailable',
            `${SETTINGS_CHANGES_WAITING_MAX} settings changes are waiting already; try again`,
          ),
        )
        return
      case 'settings.refuse unstable file':
        requests.settle(
          effect.handle,
          no('conflict', 'config.json is being edited by another program; stop that program, then try again'),
        )
        return
      case 'settings.publish':
        broadcast.send({ type: 'config', config: currentConfig.redacted })
        onConfigChange()
        return
    }
  }
}

async function applyChange(
  context: HostContext,
  requests: SettingsRequests,
  handle: number,
  outcomes: Map<number, Result<SettingsUpdateResponse>>,
): Promise<SettingsEvent> {
  const { store, currentConfig, log, meters } = context
  const file = store.config
  const refuse = (answer: Result<never>): SettingsEvent => {
    outcomes.set(handle, answer)
    meters.count('settings_changes_total', { outcome: answer.ok ? 'ok' : answer.refusal.kind })
    return { type: 'change refused' }
  }
  try {
    const request = requests.get(handle)
    if (request === undefined) return { type: 'change refused' }
    const decided = decideRequest(context, request)
    if (!decided.ok) return refuse(decided)
    const { applied, text, changed, stored, effective } = decided.value
    const before = currentConfig.configuration.effective
    const checked = checkedPaths(request)
    // An invalid file is replaced even when the change alters nothing, so that the answer still holds after a restart.
    if (changed || currentConfig.isFileInvalid) {
      if (currentConfig.isFileInvalid && currentConfig.fileText !== undefined) {
        const copy = await file.saveCopy(currentConfig.fileText)
        log.warn({ copy }, 'config.json is invalid and is being replaced; its content was saved as a copy')
      }
      const replaced = await file.replace(currentConfig.fileText, text)
      if (replaced.is === 'changed') return { type: 'file differs' }
      currentConfig.adopt({ stored, effective }, text, checked)
    } else if (checked.length > 0) {
      // The same credential was checked for another origin than before, which the file does not show.
      currentConfig.adopt({ stored, effective }, currentConfig.fileText, checked)
    }
    outcomes.set(handle, yes({ config: currentConfig.redacted, applied }))
    meters.count('settings_changes_total', { outcome: applied })
    if (applied === 'restart') log.warn({}, 'a changed setting takes effect after a restart of the host')
    const isNew = changed || !isJsonEqual(before, currentConfig.configuration.effective)
    return { type: isNew ? 'change written' : 'change refused' }
  } catch (error) {
    const reason = messageOf(error)
    log.error({ err: error }, 'config.json could not be written')
    return refuse(no('failed', `config.json could not be written, and nothing was changed: ${reason}`))
  }
}

function decideRequest(context: HostContext, request: SettingsRequest): Result<DecidedChange> {
  if (request.is === 'patch') return decidePatch(context, request.patch, request.confirm, request.reposInUse)
  const current = context.currentConfig.configuration
  if (request.isStillWanted(current.effective)) return decideCredentials(current, request.change)
  return no('conflict', 'the configuration was changed meanwhile; nothing was saved')
}

/** Credentials were checked with their provider; a client secret in a patch was given for the tracker in force. */
function checkedPaths(request: SettingsRequest): string[] {
  const [given, paths] =
    request.is === 'patch' ? [request.patch, CLIENT_SECRET_PATHS] : [request.change, CREDENTIAL_PATHS]
  return paths.filter((path) => typeof valueAt(given, path) === 'string')
}

function decidePatch(
  { currentConfig, findTlsFault }: HostContext,
  patch: unknown,
  confirm: readonly string[],
  reposInUse: ReposInUse,
): Result<DecidedChange> {
  const current = currentConfig.configuration
  const decided = decideChange(current, patch, findTlsFault)
  if (!decided.ok) return decided
  const confirmed = requireConfirmation(current.effective, decided.value.effective, confirm, reposInUse)
  return confirmed.ok ? decided : confirmed
}

async function readFile(context: HostContext): Promise<SettingsEvent> {
  const { store, currentConfig, log } = context
  try {
    const { text, edit } = await readSettledEdit(context)
    if (text === currentConfig.fileText) return { type: 'file unchanged' }
    if (!edit.ok) {
      currentConfig.rejectFile(text)
      log.error(
        { problem: edit.refusal.message },
        'config.json was edited into something invalid; the last valid configuration stays in force',
      )
      return { type: 'edit refused' }
    }
    const keys = changedPaths(currentConfig.configuration.effective, edit.value.effective)
    currentConfig.adopt(edit.value, text)
    await store.trail.record({ source: 'file', action: 'changeSettings', keys })
    log.info({}, 'config.json was edited; the new configuration is in force')
    if (edit.value.restartNeeded) log.warn({}, 'an edited setting takes effect after a restart of the host')
    return { type: 'edit adopted' }
  } catch (error) {
    log.error({ err: error }, 'config.json could not be read; the last valid configuration stays in force')
    return { type: 'file unchanged' }
  }
}

// ---- edits by hand -----------------------------------------------------------------------------------------------

interface FileEdit {
  readonly text: string | undefined
  readonly edit: Result<AdoptedEdit>
}

/**
 * An editor may empty the file or rename it away before it writes the new text. So an invalid text is final only when the
 * file still holds it a moment later, and meanwhile no requested change overwrites the file.
 */
async function readSettledEdit(context: HostContext): Promise<FileEdit> {
  const { clock, store, currentConfig, findTlsFault } = context
  const judge = (text: string | undefined): FileEdit => ({
    text,
    edit: adoptEdit(currentConfig.configuration, text, findTlsFault),
  })
  let found = judge(await store.config.read())
  for (let tries = 0; tries < CONFIG_SETTLE_TRIES_MAX; tries++) {
    if (found.edit.ok || found.text === currentConfig.fileText) return found
    await new Promise<void>((resolve) => void clock.after(CONFIG_SETTLE_MS, resolve))
    const text = await store.config.read()
    if (text === found.text) return found
    found = judge(text)
  }
  return found
}
