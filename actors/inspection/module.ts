/** The inspection module lets people who inspect the host see the actors of workers that share theirs. */
import { defineHostModule } from '../host-context.ts'
import type { ConnectionContext } from '../workers/connection.machine.ts'
import { CONNECTION } from '../workers/worker.names.ts'

export const inspectionModule = defineHostModule({
  name: 'inspection',
  create({ inspection }, { workers }) {
    inspection.workerActors.sendBy((workerId, frame) => {
      workers.connections.sendToWorker(workerId, frame)
    })
    return {
      onStateChange: {
        [CONNECTION]: ({ after, over }) => {
          const { workerId } = after.context as ConnectionContext
          if (over && workerId !== null) inspection.workerActors.onLost(workerId)
        },
      },
      stop: () => inspection.stop(),
      sizes: () => ({ inspectionViewers: inspection.viewerCount }),
    }
  },
})
