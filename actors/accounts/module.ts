/** The accounts module connects trackers, code hosts, agents and the bucket. */
import { pathsIn } from '../../core/audit-paths.ts'
import { defineHostModule } from '../host-context.ts'
import { effectHandlers } from '../runtime/module.ts'
import { type AccountEffect, AccountManager } from './account-manager.ts'
import { accountKinds } from './connect.kinds.ts'

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly accounts: AccountManager
  }
}

export const accountsModule = defineHostModule({
  name: 'accounts',
  kinds: accountKinds,
  create(context, { settings, tracker }) {
    const accounts = new AccountManager({
      ...context,
      redacted: () => context.currentConfig.redacted,
      port: context.managementPort,
      save: async (change, still = () => true) => {
        const saved = await settings.saveCredentials(change, still)
        // A tracker may be asked with the code host's token, too.
        if (saved.ok && (change.tracker ?? change.codehost) !== undefined)
          tracker.connection.onCredentialConfirmed()
        // Consents of people come by several ways, and through a browser.
        if (saved.ok)
          await context.store.trail.record({
            source: 'host',
            action: 'connectAccount',
            keys: pathsIn(change),
          })
        return saved
      },
    })
    return {
      view: accounts,
      effects: effectHandlers<AccountEffect>({ connect: (effect) => accounts.runEffect(effect) }),
      stop: () => accounts.stop(),
      sizes: () => ({ connecting: accounts.size }),
    }
  },
})
