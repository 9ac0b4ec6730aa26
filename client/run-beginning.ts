/** When a run began to wait for a worker, the last time that it did. */
import type { Run } from '../protocol/run.ts'

export const beginningOf = ({ queuedAt, createdAt }: Run): string => queuedAt ?? createdAt
