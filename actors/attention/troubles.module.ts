/** The troubles module stores what needs a person where no other record says it, for the modules that find it. */
import { defineHostModule } from '../host-context.ts'
import { KnownTroubles } from './known-troubles.ts'

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly troubles: KnownTroubles
  }
}

export const troublesModule = defineHostModule({
  name: 'troubles',
  create({ store, requestCommit }) {
    const troubles = new KnownTroubles({ keyValues: store.database.keyValues, requestCommit })
    return { view: troubles, participants: [troubles], sizes: () => ({ troubles: troubles.size }) }
  },
})
