/** The provisioning module sets up other machines as workers over SSH. */
import { defineHostModule } from '../host-context.ts'
import { effectHandlers } from '../runtime/module.ts'
import { type ProvisionEffect, provisionKind } from './provision.machine.ts'
import { Provisioning } from './provisioning.ts'

declare module '../runtime/module.ts' {
  interface ModuleViews {
    /** Absent where the host can reach no other machines. */
    readonly provisioning: Pick<Provisioning, 'provision'> | undefined
  }
}

export const provisioningModule = defineHostModule({
  name: 'provisioning',
  kinds: [provisionKind],
  create(context, { workers, terminals }) {
    const { provisioning: ports, broadcast, store } = context
    if (ports === undefined) return { view: undefined }
    const provisioning = new Provisioning({
      ...context,
      ...ports,
      installation: store.installation,
      workers: workers.registry,
      terminals: terminals.sessions,
      pairingTokens: workers.pairingTokens,
      push: (push) => broadcast.send(push),
    })
    return {
      view: provisioning,
      effects: effectHandlers<ProvisionEffect>({ provision: (effect) => provisioning.runEffect(effect) }),
      drain: () => provisioning.interruptAll(),
      stop: () => provisioning.stop(),
      sizes: () => ({ provisioning: provisioning.size }),
    }
  },
})
