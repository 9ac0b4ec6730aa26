/** The costs of this day so far, as the page of costs has them. What adds them up is no part of the first load. */
import { useLaterPart } from '../../elements/later-part.ts'

export function SpentToday() {
  const Link = useLaterPart(async () => (await import('../costs/spent-today-link.tsx')).SpentTodayLink)
  return Link === undefined ? null : <Link />
}
