/** Heartbeats are not pushed, so the page asks for the fleet in turns while somebody sees it. */
import { useEffect } from 'preact/hooks'
import { host } from '../state/host.ts'
import { live } from '../state/live.ts'
import { workers } from '../state/records.ts'

/** Workers send a heartbeat every 15 s. */
const TURN_MS = 10_000

export function useFreshWorkers(): void {
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.hidden || live.value.state !== 'live') return
      host.listWorkers().then(
        (fleet) => {
          workers.value = fleet.workers
        },
        // The state of the connection tells what is wrong.
        () => {},
      )
    }, TURN_MS)
    return () => clearInterval(timer)
  }, [])
}
