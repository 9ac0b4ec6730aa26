/** The height of rows in pixels, as the stylesheet gives it for the density, the pointer and the size of text. */
export function rowHeight(name: '--row' | '--row-low' = '--row-low'): number {
  const style = getComputedStyle(document.documentElement)
  return Math.round(Number.parseFloat(style.getPropertyValue(name)) * Number.parseFloat(style.fontSize))
}
