/** Makes the page an app: its files are kept for a listener that is away, and news of a hidden page are notifications. */
import { effect } from '@preact/signals'
import type { AttentionItem } from '../../../protocol/attention.ts'
import { navigate } from '../../router.ts'
import { runAddress } from '../addresses.ts'
import { preferences } from '../state/preferences.ts'
import { attention } from '../state/records.ts'

/** More at once become one notification with their number. */
const NOTIFICATIONS_MAX = 3

export function startApp(): void {
  // A browser without service workers, or one that refuses them, shows the page all the same.
  navigator.serviceWorker?.register('/service-worker.js').catch(() => {})
  startNotifications()
}

/** Asks the browser for its permission; false when the person or the browser refuses. */
export async function allowNotifications(): Promise<boolean> {
  if (!('Notification' in globalThis)) return false
  return (await Notification.requestPermission()) === 'granted'
}

/** Only what comes while the page is hidden is news. */
function startNotifications(): void {
  let known: ReadonlySet<string> | undefined
  effect(() => {
    const items = attention.value
    const news = known === undefined ? [] : items.filter(({ id }) => known?.has(id) === false)
    known = new Set(items.map(({ id }) => id))
    if (!preferences.value.notifications || !document.hidden || news.length === 0) return
    if (!('Notification' in globalThis) || Notification.permission !== 'granted') return
    if (news.length > NOTIFICATIONS_MAX) notify(`${news.length} things need you`, '/', 'many')
    else for (const item of news) notify(item.message, addressOf(item), item.id)
  })
}

const addressOf = ({ runId }: AttentionItem): string => (runId === undefined ? '/' : runAddress(runId))

function notify(title: string, to: string, tag: string): void {
  const notification = new Notification(title, { tag, icon: '/icon-192.png' })
  notification.onclick = () => {
    window.focus()
    navigate(to)
    notification.close()
  }
}
