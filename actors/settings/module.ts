/** The settings module changes the configuration: by patches, by checked credentials, and by hand edits of the file. */
import type { CredentialChange } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { SettingsUpdateResponse } from '../../protocol/routes.ts'
import { defineHostModule } from '../host-context.ts'
import { effectHandlers } from '../runtime/module.ts'
import { PendingRequests } from '../runtime/pending-requests.ts'
import { type SettingsRequest, type SettingsRequests, settingsEffects } from './settings.effects.ts'
import { SETTINGS, type SettingsEffect, type SettingsEvent, settingsKind } from './settings.machine.ts'

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
    const { store, broadcast, system } = context
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
        settings: settingsEffects({
          ...context,
          file: store.config,
          trail: store.trail,
          requests,
          push: (push) => broadcast.send(push),
          sendEvent,
        }),
      }),
      stop: () =>
        requests.settleAll(
          no('unavailable', 'the service stopped; whether the change was made, config.json tells'),
        ),
      sizes: () => ({ waitingForSettings: requests.size }),
    }
  },
})
