/** Law 34: one owner a data directory. The fence before a commit is the store's, so what leaves the host is judged. */
import { FOREIGN_INSTALLATION } from '../foreign-host.ts'
import type { Process } from '../timeline.ts'
import type { Law } from './law.ts'

export const ownerLaws: readonly Law[] = [
  {
    number: '34',
    sentence: 'a host that no longer owns its data directory sends nothing',
    observe: (view, fail) => {
      const judge = (host: Process | undefined, what: string) => {
        if (host !== undefined && host !== view.disk.owner) fail(`${host.name} was taken over and ${what}`)
      }
      return {
        onHostSends: ({ host }, frame) => {
          // The foreign host has a data directory of its own.
          const isForeign = frame.type === 'rejected' && frame.installation === FOREIGN_INSTALLATION
          if (!isForeign) judge(host, `sends ${frame.type}`)
        },
        onHostActs: judge,
      }
    },
  },
]
