/** The actor kind of leases, in a file of its own so that the machines of runs and leases can name each other. */
import { kindName } from '../runtime/actor-kind.ts'
import type { LeaseContext, LeaseEvent, LeaseInput } from './lease.machine.ts'

export const LEASE = kindName<LeaseContext, LeaseEvent, LeaseInput>('lease')
